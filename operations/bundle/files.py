# SPDX-License-Identifier: Apache-2.0
"""Write files that appear whole or not at all, whenever the program is ended."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Give a temporary name beside `path`; rename it to `path` at the end, remove it if writing fails."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write(path: Path, data: bytes) -> None:
    """Replace the content of `path` by `data` in one step."""
    with whole(path) as part:
        part.write_bytes(data)
