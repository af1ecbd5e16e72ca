# SPDX-License-Identifier: Apache-2.0
"""How the demo weights read a page, as ``SMALL_PRINT``: a block in small pieces (docs/decisions/0304), captions that
the demo's layout model calls texts, and tables of the page's own text with the grid that cells are found by.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import numpy as np

from docparser.own_text.page_text import BlockText
from docparser.own_text.truth import Doubt
from docparser.page.question import TABLE_PROMPT, TEXT_PROMPT, BlockCalls, Question, Sampling, read_block
from docparser.page.run import BlockReading
from docparser.small_print import bands, cells, grid, lines, second_look
from docparser.small_print.bands import Band
from docparser.vlm.client import Reply
from docparser.vlm.repetition import BAND, TEXT

Request = dict[str, Any]
Join = Callable[[list[str]], str]  # of the texts of a block's parts
Box = tuple[float, float, float, float]  # left, top, right, bottom in pixels of the page
Said = Callable[[Sequence[Box]], list[BlockText]]
# Of captions.
ABOVE = ("image", "chart")
NEAR = 0.04  # of the page's height: between a figure and its caption
TALLEST = 0.045  # of the page's height: a caption has two lines at most
BESIDE = 0.5  # of the narrower one's width, that both share


def read_small_print(question: Question, sampling: Sampling, calls: BlockCalls) -> Coroutine[Any, Any, Reply]:
    """A block of text in bands of a few lines, a table by its cells; any other, and a table without a grid, whole."""
    if question.prompt == TEXT_PROMPT:
        found = bands.bands_of(question)
        return _read_bands(found, [band.question.request(sampling) for band in found], sampling, calls)
    if question.prompt == TABLE_PROMPT and (table := cells.find(question)) is not None:
        return _read_cells(table.otsl, [cell.request(sampling) for cell in table.questions], calls)
    return read_block(question, sampling, calls)


async def _read_bands(found: list[Band], requests: list[Request], sampling: Sampling, calls: BlockCalls) -> Reply:
    """Bands whose text does not fit their print are asked for again, line by line."""
    replies = await calls.each(requests, BAND)
    for number in second_look.doubtful(found, replies):
        singly = [line.request(sampling) for line in found[number].by_line()]
        again = one(await calls.each(singly, BAND, f"-{number}-again"))
        replies[number] = second_look.better(replies[number], again, found[number])
    if len(replies) == 1:
        return dataclasses.replace(replies[0], text=lines.whole(found, [replies[0].text]))
    return one(replies, functools.partial(lines.whole, found))


async def _read_cells(otsl: Join, requests: list[Request], calls: BlockCalls) -> Reply:
    return one(await calls.each(requests, TEXT), otsl)


def one(replies: list[Reply], join: Join = bands.joined) -> Reply:
    """The reply to a block of those to its parts; it is no surer than they are together, letter by letter."""
    known = [(reply.confidence, len(reply.text)) for reply in replies if reply.confidence is not None and reply.text]
    length = sum(letters for _, letters in known)
    said = any(reply.note is None or reply.note.has_text for reply in replies)
    return Reply(
        join([reply.text for reply in replies]) if said else "",
        next((reply.note for reply in replies if reply.note is not None), None),
        (sum(reply.tokens[0] for reply in replies), sum(reply.tokens[1] for reply in replies)),
        sum(confidence * letters for confidence, letters in known) / length if length else None,
    )


def with_captions(boxes: list[dict[str, Any]], height: int) -> list[dict[str, Any]]:
    """The boxes of a page ``height`` pixels high. A low text that stands right below a figure is its title."""
    figures = [box["coordinate"] for box in boxes if box["label"] in ABOVE]
    return [
        box | {"label": "figure_title"}
        if box["label"] == "text" and any(_is_caption(box["coordinate"], figure, height) for figure in figures)
        else box
        for box in boxes
    ]


def _is_caption(text: Sequence[float], figure: Sequence[float], height: int) -> bool:
    shared = min(text[2], figure[2]) - max(text[0], figure[0])
    narrower = min(text[2] - text[0], figure[2] - figure[0])
    return (
        text[3] - text[1] <= TALLEST * height
        and -NEAR / 2 * height <= text[1] - figure[3] <= NEAR * height
        and shared >= BESIDE * narrower
    )


def own_table(question: Question, corner: tuple[int, int], whole: BlockText, said: Said) -> str | None:
    """The table in OTSL. ``corner``: left and top of the question's picture on the page; ``whole``: what the page says
    there; ``said``: what it says in boxes. None where no grid is found, where a cell's text is not true, and where the
    cells have not all of the text."""
    found = grid.find(np.asarray(bands.picture_of(question).convert("L")))
    if found is None:
        return None
    left, top = corner
    areas = [cell.area for cell in found.cells]
    texts = said([(left + area.left, top + area.top, left + area.right, top + area.bottom) for area in areas])
    if any(set(text.doubts) - {Doubt.EMPTY} for text in texts):
        return None
    if sum(map(_letters, texts)) != _letters(whole):
        return None
    return cells.otsl_of(found, [cells.plain(text.text) for text in texts])


def _letters(said: BlockText) -> int:
    return sum(len(word.text) for line in said.lines for word in line.words)


SMALL_PRINT = BlockReading(read_small_print, with_captions, own_table)
