# SPDX-License-Identifier: Apache-2.0
"""Write files that appear whole or not at all, whenever the program is ended; JSON; names as file systems take them."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

LONGEST_STEM = 200  # bytes, of the 255 that a name may have: an ending follows, and in a picture's name its place
_count = itertools.count()


@contextmanager
def whole(path: Path, flushed: bool = False) -> Iterator[Path]:
    """Give a temporary name beside `path`; rename it to `path` at the end, remove it if writing fails. `flushed`: the
    content is on the disk by then. Otherwise a power cut may leave the name with an empty file."""
    part = path.with_name(f".{os.getpid()}-{next(_count)}.part")  # shorter than any name that is taken
    try:
        yield part
        if flushed:
            flush(part)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def flush(path: Path) -> None:
    """Flush a file's content to the disk."""
    with path.open("r+b") as stream:  # SMB flushes no file that is open for reading only
        os.fsync(stream.fileno())


def write(path: Path, data: bytes, flushed: bool = False) -> None:
    """Replace the content of `path` by `data` in one step."""
    with whole(path, flushed) as part:
        part.write_bytes(data)


def stem(path: Path) -> str:
    """A file's name without its last suffix, cut where no ending would fit any more."""
    name = os.fsencode(path.stem)
    return path.stem if len(name) <= LONGEST_STEM else name[:LONGEST_STEM].decode("utf-8", "ignore")


def as_json(value: Any, indent: int | None = None) -> bytes:
    """JSON, also of names that are not UTF-8: their bytes are escaped."""
    return (json.dumps(value, ensure_ascii=False, indent=indent) + "\n").encode("utf-8", "backslashreplace")


def write_json(path: Path, value: Any, flushed: bool = False) -> None:
    """Replace the content of `path` by a value as one line of JSON."""
    write(path, as_json(value), flushed)


def read_json(path: Path) -> Any:
    """Return what the file holds, or None if it is missing or is no JSON (after a full disk, say)."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None


def printable(name: str | Path) -> str:
    """A name for the screen; bytes that are not UTF-8 are escaped."""
    return str(name).encode("utf-8", "backslashreplace").decode()
