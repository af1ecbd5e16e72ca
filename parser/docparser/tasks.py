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
    """Answer: ParsedPage. ``index`` counts from 0."""

    document: Document
    index: int
    options: PageOptions


@dataclasses.dataclass(frozen=True)
class ParsedPage:
    """``entry`` is the page's part of ``layoutParsingResults``; it lacks the text while ``frozen`` waits for the
    other pages of its document. ``width`` and ``height`` are the page's pixels; ``blocks_answered`` and
    ``block_failures`` say how the VLM fared."""

    entry: dict
    width: int
    height: int
    blocks_answered: int
    block_failures: list[dict]
    frozen: dict | None = None


@dataclasses.dataclass(frozen=True)
class JoinPages:
    """Answer: the entries' texts, one per page, of pages that were parsed with ``restructure`` set."""

    frozen: list[dict]
    answer: AnswerOptions
    restructure: RestructureOptions


@dataclasses.dataclass(frozen=True)
class JoinClientPages:
    """The same for pages that a client sent back: ``(prunedResult, images)``."""

    pages: list[tuple[dict, dict[str, str]]]
    answer: AnswerOptions
    restructure: RestructureOptions


Task = CountPages | ParsePage | JoinPages | JoinClientPages
