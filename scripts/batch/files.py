# SPDX-License-Identifier: Apache-2.0
"""Files that appear whole or not at all, whenever the program is ended."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A name to write to, beside `path`; renamed to it at the end, removed where writing fails."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write(path: Path, data: bytes) -> None:
    with whole(path) as part:
        part.write_bytes(data)


def write_json(path: Path, value: Any) -> None:
    write(path, (json.dumps(value, ensure_ascii=False) + "\n").encode())


def read_json(path: Path) -> Any:
    """What the file holds, or None where it is missing or no JSON (a disk that was full, say)."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
