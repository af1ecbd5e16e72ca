# SPDX-License-Identifier: Apache-2.0
"""What a worker process can be asked, and what it answers: plain data that crosses the pipe."""

from __future__ import annotations

import dataclasses

from docparser.options import AnswerOptions, PageOptions, RestructureOptions
from docparser.source import Document


@dataclasses.dataclass(frozen=True)
class CountPages:
    """Answer: the number of pages. Opens the document, so it also finds what is wrong with it."""

    document: Document


@dataclasses.dataclass(frozen=True)
class ParsePage:
    """Answer: ParsedPage. ``index`` counts from 0; ``request_id`` goes to the VLM with each call."""

    document: Document
    index: int
    options: PageOptions
    request_id: str = ""


@dataclasses.dataclass(frozen=True)
class ParsedPage:
    """``entry`` is the page's part of ``layoutParsingResults`` as JSON; it lacks the text while ``frozen`` (pickled)
    waits for the other pages of its document. ``width`` and ``height`` are the page's pixels; ``blocks_answered`` and
    ``notes`` say how the VLM fared; ``seconds`` tells the wall time of each stage."""

    entry: bytes
    width: int
    height: int
    blocks_answered: int
    notes: list[dict]
    seconds: dict[str, float]
    frozen: bytes | None = None


@dataclasses.dataclass(frozen=True)
class JoinPages:
    """Answer: the entries' texts as JSON, one per page, of pages that were parsed with ``restructure`` set."""

    frozen: list[bytes]
    answer: AnswerOptions
    restructure: RestructureOptions


@dataclasses.dataclass(frozen=True)
class JoinClientPages:
    """The same for pages that a client sent back: ``(prunedResult, images)``."""

    pages: list[tuple[dict, dict[str, str]]]
    answer: AnswerOptions
    restructure: RestructureOptions


Task = CountPages | ParsePage | JoinPages | JoinClientPages


# What a worker says. READY comes first, or an Answer to task 0 with the error that prevents it.


@dataclasses.dataclass(frozen=True)
class Ready:
    """The models are loaded."""


@dataclasses.dataclass(frozen=True)
class Want:
    """The worker has CPU time and room for one more task. It says so once, and again when it has got one."""


@dataclasses.dataclass(frozen=True)
class Answer:
    """``value`` is the task's answer, or the ParserError that it ended with."""

    number: int
    value: object


@dataclasses.dataclass(frozen=True)
class VlmState:
    """Calls of this worker: how many are in flight, wait for a turn, may be in flight; when one was last answered
    (``time.monotonic``); and totals since the worker's start."""

    in_flight: int
    waiting: int
    limit: int
    last_answer: float
    counts: dict[str, int]


# What a worker is told.


@dataclasses.dataclass(frozen=True)
class Do:
    number: int
    task: Task


@dataclasses.dataclass(frozen=True)
class Forget:
    """Nobody waits for this task any more."""

    number: int
