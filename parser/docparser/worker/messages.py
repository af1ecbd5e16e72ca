# SPDX-License-Identifier: Apache-2.0
"""The messages between the service and a worker process: plain data, without Paddle."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from docparser.contract.answers import Note, NotedBlock
from docparser.contract.schemas import OutputOptions, ParseOptions
from docparser.documents.spool import Document


@dataclasses.dataclass(frozen=True)
class CountPages:
    """Answer: the number of pages. Opens the document, so it also finds damage."""

    document: Document


@dataclasses.dataclass(frozen=True)
class ParsePage:
    """Answer: ParsedPage. ``index`` counts from 0; ``request_id`` goes to the VLM with each call. ``early``: PartOfPage
    may come before the answer. ``small_print``: how blocks are read (``small_print``). ``trace``: see ``traces``.
    Options that the service has defaults for are settled."""

    document: Document
    index: int
    options: ParseOptions
    request_id: str = ""
    early: bool = False
    small_print: bool = False
    trace: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class ParsedPage:
    """``entry`` is the page's part of ``layoutParsingResults`` as JSON. A page with ``frozen`` (files of
    ``page.frozen``) comes from a worker without a text, which JoinPages gives it. ``width`` and ``height`` are
    the page's pixels; ``blocks_answered`` and ``block_notes`` report the VLM's work, and so do its ``tokens``, of
    prompts and of texts; ``seconds`` is the wall time of each stage; ``page_notes`` say what the page is like."""

    entry: bytes
    width: int
    height: int
    blocks_answered: int
    block_notes: list[NotedBlock]
    seconds: dict[str, float]
    frozen: dict[str, bytes] | None = None
    tokens: tuple[int, int] = (0, 0)
    page_notes: list[Note] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class JoinPages:
    """Answer: the entries' texts as JSON, one per page, of pages that were parsed with ``restructurePages``.
    ``frozen``: by the pages' indices, from 0, in order. No table goes on over a page that is not among them."""

    frozen: dict[int, dict[str, bytes]]
    options: OutputOptions


@dataclasses.dataclass(frozen=True)
class JoinClientPages:
    """The same for pages that a client sent back: the ``body`` of its request, which nobody has read so far. Before
    the entries comes a SentHead. ``pages``: how many there seem to be; ``most`` may be."""

    body: bytes
    pages: int
    most: int


@dataclasses.dataclass(frozen=True)
class SentHead:
    """As JSON: what was found in the body. ``error``: the name of a ParserError, its ``message``, and no entries.
    ``notes``: what the client is told of fields without effect."""

    log_id: str | None
    error: str | None = None
    message: str = ""
    notes: list[str] = dataclasses.field(default_factory=list)


Task = CountPages | ParsePage | JoinPages | JoinClientPages


# From a worker. Ready comes first, or an Answer to task 0 with the error that prevents it.


@dataclasses.dataclass(frozen=True)
class Ready:
    """The models are loaded; ``layout_engine`` runs the layout model: openvino or paddle."""

    layout_engine: str


@dataclasses.dataclass(frozen=True)
class RequestTask:
    """The worker has CPU time and room for one more task. It asks once, and again after it has got one."""


@dataclasses.dataclass(frozen=True)
class Answer:
    """``value`` is the task's answer, or the ParserError that it ended with. ``used_s``: how long it had the CPU, the
    reading ``apart`` left out."""

    number: int
    value: object
    used_s: float = 0.0


@dataclasses.dataclass(frozen=True)
class ReadingIsSlow:
    """The task's document takes long to read. This goes on apart, so the worker has the CPU for others."""

    number: int
    used_s: float


@dataclasses.dataclass(frozen=True)
class ReadingEnded:
    """A document that was read apart has been read, or cannot be."""

    number: int


@dataclasses.dataclass(frozen=True)
class PagesGoOn:
    """The VLM has answered for these tasks since the message before. One message for many answers, which are hundreds a
    second."""

    numbers: frozenset[int]


@dataclasses.dataclass(frozen=True)
class PartOfPage:
    """A part of the Markdown of a task's page, which begins ``offset`` characters from the page's beginning. A page
    that is begun again tells it again."""

    number: int
    offset: int
    text: str


@dataclasses.dataclass(frozen=True)
class ServersState:
    """What this worker waits for. Calls of the VLM: how many are in flight, wait for a turn, may be in flight; when one
    was last answered, and when one last failed (``time.monotonic``); totals since the worker's start, of pages by the
    place of their layout too; and why the layout server (LAYOUT_URL) is not used now, if it is not."""

    in_flight: int
    waiting: int
    limit: int
    last_answer: float
    last_loss: float
    counts: dict[str, int]
    layout_away: str = ""


# To a worker.


@dataclasses.dataclass(frozen=True)
class RunTask:
    """Start this task. ``number`` names it in answers and cancellations. ``apart``: its document is read at low
    priority, besides what has the CPU."""

    number: int
    task: Task
    apart: bool = False


@dataclasses.dataclass(frozen=True)
class CancelTask:
    """Nobody waits for the answer to this task any more."""

    number: int
