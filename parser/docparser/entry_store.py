# SPDX-License-Identifier: Apache-2.0
"""The finished pages of one request, kept in memory while they are small, and on disk beyond that."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from docparser.errors import StorageFull

IN_MEMORY = 8 << 20  # bytes of one request
CHUNK = 1 << 20


class EntryStore:
    """``entries[index]`` in any order, read back in order of ``index``. Closing it deletes what is on disk."""

    def __init__(self, folder: Path | None) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY, prefix="docparser-", dir=folder)  # noqa: SIM115
        self._places: dict[int, tuple[int, int]] = {}
        self._end = 0

    def put(self, index: int, entry: bytes) -> None:
        """Raises StorageFull."""
        try:
            self._file.seek(self._end)
            self._file.write(entry)
            self._file.flush()
        except OSError as exc:
            raise StorageFull(
                f"The parser's disk cannot take the result ({exc.strerror}); see PARSER_SPOOL_DIR."
            ) from None
        self._places[index] = (self._end, len(entry))
        self._end += len(entry)

    def get(self, index: int) -> bytes:
        offset, length = self._places[index]
        self._file.seek(offset)
        return self._file.read(length)

    @property
    def size(self) -> int:
        """Bytes of all entries and the commas between them."""
        return sum(length for _, length in self._places.values()) + max(0, len(self._places) - 1)

    def joined(self) -> Iterator[bytes]:
        """All entries, with commas, in pieces."""
        for number, index in enumerate(sorted(self._places)):
            if number:
                yield b","
            entry = self.get(index)
            for start in range(0, len(entry), CHUNK):
                yield entry[start : start + CHUNK]

    def close(self) -> None:
        self._file.close()


def merge_objects(first: bytes, second: bytes) -> bytes:
    """Two JSON objects as one; where both have a key, readers take the second's."""
    inside = [part for part in (first.strip()[1:-1], second.strip()[1:-1]) if part.strip()]
    return b"{" + b",".join(inside) + b"}"
