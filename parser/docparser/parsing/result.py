# SPDX-License-Identifier: Apache-2.0
"""The result of one document, as an answer of ``/layout-parsing``. Entries pass as bytes; nothing reads them here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from docparser.parsing.entry_store import EntryStore


class ParseResult:
    """``rest`` is what stands beside ``layoutParsingResults`` in the result; ``tokens`` are the VLM's, of its prompts
    and of its texts. Close it.

    ``models`` in the methods names the weights in use; see ``Readiness.models_in_use``.
    """

    def __init__(self, entries: EntryStore, rest: dict[str, Any], tokens: tuple[int, int] = (0, 0)) -> None:
        self._entries = entries
        self._rest = rest
        self.tokens = tokens

    def body(self, log_id: str, models: dict) -> tuple[int, Iterator[bytes]]:
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

    def entries(self) -> Iterator[bytes]:
        """Each page's entry in order."""
        return self._entries.entries()

    def report(self, models: dict) -> dict[str, Any]:
        """``docparser`` of the answer."""
        return self._with_models(models)["docparser"]

    def _with_models(self, models: dict) -> dict[str, Any]:
        return {**self._rest, "docparser": {"models": models, **self._rest["docparser"]}}

    def close(self) -> None:
        self._entries.close()
