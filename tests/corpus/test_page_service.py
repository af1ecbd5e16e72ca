# SPDX-License-Identifier: Apache-2.0
"""How long, and how often, a page is tried in a process of Ray. The parser's page work is simulated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from corpus import page_service
from corpus.page_service import PageRead, PageService
from docparser.documents.spool import Document
from docparser.errors import NotReady
from docparser.parsing.fair_queue import Flow
from docparser.parsing.result import PageOutcome


def service_over(page: Callable[..., Any], patience_s: float) -> PageService:
    """Without the parser's processes: ``page`` answers in their place."""
    made = object.__new__(PageService)
    made._service, made._options = SimpleNamespace(page=page), "options"  # type: ignore[assignment]  # simulated
    made._settings = SimpleNamespace(vlm_patience_s=patience_s)  # type: ignore[assignment]  # simulated
    made._told = lambda document, number, outcome: PageRead(number, {}, 0)  # type: ignore[method-assign]  # simulated
    return made


def outcome(failed: bool) -> Any:
    return SimpleNamespace(vlm_failed_on_some_block=failed, vlm_failure=None)


@pytest.mark.parametrize(
    ("answers", "calls"),
    [
        ([False], 1),
        ([True, False], 2),
        ([True, True, True, False], 3),
        ([NotReady("no worker"), False], 2),
    ],
)
def test_a_page_of_which_blocks_failed_is_read_again(
    monkeypatch: pytest.MonkeyPatch, answers: list[bool | Exception], calls: int
) -> None:
    asked: list[tuple[Any, ...]] = []

    async def page(*words: Any) -> PageOutcome:
        asked.append(words)
        answer = answers[len(asked) - 1]
        if isinstance(answer, Exception):
            raise answer
        found: PageOutcome = outcome(answer)
        return found

    async def sleep(_: float) -> None:
        pass

    monkeypatch.setattr(page_service.asyncio, "sleep", sleep)
    flow = Flow("a.pdf")
    document = Document("a.pdf", "PDF")
    assert asyncio.run(service_over(page, patience_s=5)._read(document, 7, flow)).number == 7
    # Pages count from 0 there.
    assert len(asked) == calls and set(asked) == {(document, 6, "options", flow, "corpus-7")}


def test_a_worker_that_never_becomes_ready_ends_the_patience() -> None:
    async def page(*_: Any) -> PageOutcome:
        raise NotReady("no worker")

    with pytest.raises(NotReady):
        asyncio.run(service_over(page, patience_s=-1)._page(Document("a.pdf", "PDF"), 1, Flow("a.pdf")))
