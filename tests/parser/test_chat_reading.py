# SPDX-License-Identifier: Apache-2.0
"""Chat's reading of a document whose pages are told in parts, and end well or not."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from docparser.errors import InternalError, PageTimeout, ParserError, RequestTimeout
from docparser.http.dialects import openai_completion as completion
from docparser.http.dialects.openai_completion import Arrived, ChatReading
from docparser.parsing.document_pages import Early
from docparser.parsing.result import EMPTY_ENTRY, EntryStore, PageOutcome, ParseResult
from docparser.worker.messages import ParsedPage

TOO_LONG = PageTimeout("The page took longer than 1 s (PARSER_PAGE_TIMEOUT_S).")


def parsed(text: str) -> ParsedPage:
    entry = json.dumps({"markdown": {"text": text}}).encode()
    return ParsedPage(entry, 10, 10, blocks_answered=1, block_notes=[], seconds={})


class Document:
    """Two pages whose parts and ends are told as given: ``(page, offset, text)``, or an outcome."""

    joined, limit_s, endless = False, 60.0, False

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
        if self.endless:
            await asyncio.Event().wait()
        return ParseResult(store, {"docparser": {}})

    def read(self) -> tuple[str, ParserError | None]:
        """The text that a client gets, with ~ where it is told that there is none yet, and what ended it."""
        return asyncio.run(self._read())

    async def _read(self) -> tuple[str, ParserError | None]:
        reading, texts = ChatReading(self.work, joined=self.joined, limit_s=self.limit_s), []
        try:
            async for text in reading.texts():
                texts.append(text or "~")
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


@pytest.mark.parametrize("joined", [False, True])
def test_pages_come_in_their_order_whatever_is_read_first(tmp_path: Path, joined: bool):
    """A page without text parts nothing."""
    texts = ["One.", "", "  Three.\n\n", "Four."]
    news = [PageOutcome(index, parsed=parsed(texts[index])) for index in (2, 3, 0, 1)]
    document = Document(tmp_path, [*news])
    document.joined = joined
    assert document.read() == ("One.\n\nThree.\n\nFour.", None)


def test_parts_of_a_page_are_its_text(tmp_path: Path):
    """What is white at either end of the page is not sent, and what is white between two parts is."""
    parts = ["\n", "# A\n\n", "b", " \n\nc", "\n"]
    offsets = [sum(map(len, parts[:place])) for place in range(len(parts))]
    news = [(0, offset, part) for offset, part in zip(offsets, parts)]
    end = PageOutcome(0, parsed=parsed("".join(parts)))
    assert Document(tmp_path, [*news, end, (1, 0, "d"), PageOutcome(1, parsed=parsed("d"))]).read() == (
        "# A\n\nb \n\nc\n\nd",
        None,
    )


def test_a_document_that_takes_too_long_is_given_up_and_says_meanwhile_that_it_is_read(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(completion, "HEARTBEAT_S", 0.02)
    document = Document(tmp_path, [])
    document.endless, document.limit_s = True, 1.0  # a busy machine may take a heartbeat or more away
    text, error = document.read()
    assert text and set(text) == {"~"}
    assert isinstance(error, RequestTimeout) and "1 s (PARSER_REQUEST_TIMEOUT_S)" in str(error)
