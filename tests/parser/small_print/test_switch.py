# SPDX-License-Identifier: Apache-2.0
"""Which pages are read in small pieces: PARSER_SMALL_PRINT, and the weights where it is auto."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry
from pydantic import ValidationError

from docparser.contract.options import page_options
from docparser.contract.schemas import ParseOptions
from docparser.documents.spool import Document
from docparser.parsing.document_pages import DocumentPages
from docparser.parsing.fair_queue import Flow
from docparser.parsing.metrics import Metrics
from docparser.parsing.scheduler import PageScheduler
from docparser.settings import Settings
from docparser.worker.messages import ParsedPage, ParsePage


class Recorder:
    """A scheduler that takes a page's task, and has parsed it at once."""

    def __init__(self) -> None:
        self.tasks: list[ParsePage] = []
        self.registry = CollectorRegistry()

    async def submit(self, task: ParsePage, *rest: object) -> ParsedPage:
        self.tasks.append(task)
        return ParsedPage(b"{}", 1, 1, 0, [], {"queue": 0.0})

    def page(self, *counted: object) -> None:
        """The page is counted nowhere."""

    def waited(self, seconds: float, *, bulk: bool) -> None:
        """Nor is its wait."""


@pytest.mark.parametrize("demo", [False, True])
@pytest.mark.parametrize("setting, wanted", [("on", True), ("off", False), ("auto", None)])
def test_the_setting_wins_and_auto_is_the_weights(tmp_path, setting: str, wanted: bool | None, demo: bool):
    recorder: Any = Recorder()
    path = tmp_path / "page.png"
    path.write_bytes(b"a page")

    async def vlm_is_demo() -> bool:
        assert setting == "auto", "nobody asks for what decides nothing"
        return demo

    pages = DocumentPages(cast(PageScheduler, recorder), cast(Metrics, recorder), setting, "off", vlm_is_demo)
    options = page_options(ParseOptions(), visualize_by_default=False)
    asyncio.run(pages.read(Document(str(path), "PNG"), 0, options, Flow("one"), "request"))
    assert [task.small_print for task in recorder.tasks] == [demo if wanted is None else wanted]


def test_another_word_is_refused():
    assert Settings().small_print == "auto"
    with pytest.raises(ValidationError, match="small_print"):
        Settings(small_print="sometimes")
