# SPDX-License-Identifier: Apache-2.0
"""Chat's reading of a document whose pages are told in parts, and end well or not."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from docparser.errors import InternalError, PageTimeout, ParserError
from docparser.http.chat.completion import Arrived, ChatReading
from docparser.parsing.document_pages import Early
from docparser.parsing.result import EMPTY_ENTRY, EntryStore, PageOutcome, ParseResult
from docparser.worker.messages import ParsedPage

TOO_LONG = PageTimeout("The page took longer than 1 s (PARSER_PAGE_TIMEOUT_S).")


def parsed(text: str) -> ParsedPage:
    entry = json.dumps({"markdown": {"text": text}}).encode()
    return ParsedPage(entry, 10, 10, blocks_answered=1, block_notes=[], seconds={})


class Document:
    """Two pages whose parts and ends are told as given: ``(page, offset, text)``, or an outcome."""

    def __init__(self, folder: Path, news: list[tuple[int, int, str] | PageOutcome]) -> None:
        self._folder, self._news = folder, news

    async def work(self, arrived: Arrived, early: Early) -> ParseResult:
        store = EntryStore(self._folder)
        for told in self._news:
            if isinstance(told, PageOutcome):
                store.put(told.index, told.parsed.entry if told.parsed else EMPTY_ENTRY)
                arrived(told)
            else:
                early(*told)
            await asyncio.sleep(0)
        return ParseResult(store, {"docparser": {}})

    def read(self) -> tuple[str, ParserError | None]:
        """The text that a client gets, and what ended it."""
        return asyncio.run(self._read())

    async def _read(self) -> tuple[str, ParserError | None]:
        reading, texts = ChatReading(self.work, joined=False, limit_s=60), []
        try:
            async for text in reading.texts():
                texts.append(text)
        except ParserError as error:
            return "".join(texts), error
        finally:
            await reading.close()
        return "".join(texts), None


@pytest.mark.parametrize("begun", [True, False])
def test_a_page_that_fails(tmp_path: Path, begun: bool):
    """What was sent of it cannot be taken back, so the stream ends with the error; a page of which nothing was sent is
    left out, and the report names it."""
    part = [(0, 0, "# Title\n\n")] if begun else []
    second = PageOutcome(1, parsed=parsed("Second."))
    found = Document(tmp_path, [*part, PageOutcome(0, error=TOO_LONG), second]).read()
    assert found == (("# Title", TOO_LONG) if begun else ("Second.", None))
    assert not list(tmp_path.iterdir()), "the entries are gone with the reading"


@pytest.mark.parametrize("again", ["# Title\n\n", "# Tittle\n\n"])
def test_a_page_that_is_begun_again(tmp_path: Path, again: str):
    """After a worker died: the same text goes on; another one cannot, and says so."""
    end = PageOutcome(0, parsed=parsed(f"{again}One."))
    text, error = Document(tmp_path, [(0, 0, "# Title\n\n"), (0, 0, again), end]).read()
    if again.startswith("# Title\n"):
        assert (text, error) == ("# Title\n\nOne.", None)
    else:
        assert text == "# Title" and isinstance(error, InternalError) and "send the document again" in str(error)
