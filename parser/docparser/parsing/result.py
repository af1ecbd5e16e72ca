# SPDX-License-Identifier: Apache-2.0
"""The result of one document, as an answer of ``/layout-parsing``. Entries pass as bytes; nothing reads them here."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from docparser.contract.answers import ModelsInUse, Report
from docparser.errors import SpoolFull

IN_MEMORY = 8 << 20  # bytes of one request
CHUNK = 1 << 20


class EntryStore:
    """Entries of ``layoutParsingResults`` as JSON: put in any order, read in the order of their pages.

    Closing the store deletes its file.
    """

    def __init__(self, folder: Path | None) -> None:
        place = None if folder is None else str(folder)
        self._file = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY, prefix="docparser-", dir=place)  # noqa: SIM115
        self._places: dict[int, tuple[int, int]] = {}
        self._end = 0

    def put(self, index: int, entry: bytes) -> None:
        """Raises SpoolFull."""
        try:
            self._file.seek(self._end)
            self._file.write(entry)
            self._file.flush()
        except OSError as exc:
            raise SpoolFull(
                f"The parser's disk cannot take the result ({exc.strerror}); see PARSER_SPOOL_DIR."
            ) from None
        self._places[index] = (self._end, len(entry))
        self._end += len(entry)

    def get(self, index: int) -> bytes:
        offset, length = self._places[index]
        self._file.seek(offset)
        return self._file.read(length)

    @property
    def count(self) -> int:
        """How many entries there are."""
        return len(self._places)

    @property
    def indices(self) -> list[int]:
        return sorted(self._places)

    @property
    def size(self) -> int:
        """Bytes of all entries and the commas between them."""
        return sum(length for _, length in self._places.values()) + max(0, len(self._places) - 1)

    def joined(self) -> Iterator[bytes]:
        """All entries, with commas, in pieces."""
        for number, entry in enumerate(self.entries()):
            if number:
                yield b","
            for start in range(0, len(entry), CHUNK):
                yield entry[start : start + CHUNK]

    def entries(self) -> Iterator[bytes]:
        """Each entry in order."""
        for index in self.indices:
            yield self.get(index)

    def close(self) -> None:
        self._file.close()


# Takes the place of a page that could not be parsed, so that the other pages keep theirs.
EMPTY_ENTRY = json.dumps(
    {"prunedResult": {"parsing_res_list": [], "layout_det_res": {"boxes": []}}, "markdown": {"text": "", "images": {}}}
).encode()


def merge_objects(first: bytes, second: bytes) -> bytes:
    """Two JSON objects as one. Where both have a key, a reader takes the value of the second."""
    inside = [part for part in (first.strip()[1:-1], second.strip()[1:-1]) if part.strip()]
    return b"{" + b",".join(inside) + b"}"


class ParseResult:
    """``rest`` is what stands beside ``layoutParsingResults`` in the result; ``tokens`` are the VLM's, of its prompts
    and of its texts. Close it.

    ``models`` in the methods names the weights in use; see ``Readiness.models_in_use``.
    """

    def __init__(self, entries: EntryStore, rest: dict[str, Any], tokens: tuple[int, int] = (0, 0)) -> None:
        self._entries = entries
        self._rest = rest
        self.tokens = tokens

    def body(self, log_id: str, models: ModelsInUse) -> tuple[int, Iterator[bytes]]:
        """The answer's length in bytes, and its pieces."""
        head = json.dumps({"logId": log_id, "errorCode": 0, "errorMsg": "Success"}, ensure_ascii=False)[:-1]
        before = (head + ', "result": {"layoutParsingResults": [').encode("utf-8", "replace")
        rest = json.dumps(self._with_models(models), ensure_ascii=False)
        after = ("], " + rest[1:] + "}").encode("utf-8", "replace")

        def pieces() -> Iterator[bytes]:
            yield before
            yield from self._entries.joined()
            yield after

        return len(before) + self._entries.size + len(after), pieces()

    @property
    def pages(self) -> int:
        return self._entries.count

    @property
    def numbers(self) -> list[int]:
        """Of the pages in the document, from 1."""
        return [index + 1 for index in self._entries.indices]

    def entries(self) -> Iterator[bytes]:
        """Each page's entry in order."""
        return self._entries.entries()

    def report(self, models: ModelsInUse) -> Report:
        """``docparser`` of the answer."""
        return cast(Report, self._with_models(models)["docparser"])

    def _with_models(self, models: ModelsInUse) -> dict[str, Any]:
        return {**self._rest, "docparser": {"models": models, **self._rest["docparser"]}}

    def close(self) -> None:
        self._entries.close()
