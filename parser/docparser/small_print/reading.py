# SPDX-License-Identifier: Apache-2.0
"""How the demo weights read a page, as ``SMALL_PRINT``: a block in small pieces (docs/decisions/0304), captions that
the demo's layout model calls texts, and tables of the page's own text with the grid that cells are found by.

Bands whose text does not fit their print are asked again line by line. A VLM that loses its place leaves a phrase out,
says one twice, or loops. All three change how many letters stand for how much print, and print can be measured without
a model. In one line there is hardly a place to lose.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import statistics
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import numpy as np

from docparser.own_text.page_text import BlockText
from docparser.own_text.truth import Doubt
from docparser.page.question import TABLE_PROMPT, TEXT_PROMPT, BlockCalls, Question, Sampling, read_block
from docparser.page.run import BlockReading
from docparser.places.grids import grid
from docparser.small_print import bands, cells
from docparser.small_print.bands import Band
from docparser.vlm.client import Reply
from docparser.vlm.repetition import BAND, TEXT

Request = dict[str, Any]
Join = Callable[[list[str]], str]  # of the texts of a block's parts
# Of boxes (left, top, right, bottom in pixels of the page).
Said = Callable[[Sequence[tuple[float, float, float, float]]], list[BlockText]]
# Of captions.
ABOVE = ("image", "chart")
NEAR = 0.04  # of the page's height: between a figure and its caption
TALLEST = 0.045  # of the page's height: a caption has two lines at most
BESIDE = 0.5  # of the narrower one's width, that both share
# Of doubtful bands: letters for each small x that the print is long. Of 1,900 bands that TeX, Chromium and LibreOffice
# set, typewriters' faces among them, one in a hundred has less or more.
LEAST, MOST = 0.57, 1.16
USUAL = 0.2  # share by which a band may differ from the others of its block, which is set in the same face
PEERS = 3  # bands of a block, at least, that tell what is usual for it
SHORTEST = 14.0  # small x: in less print one letter more or less says nothing
BLANK = 0.8  # small x that a gap between two words counts for at most
AGAIN = re.compile(r"(\b\w[^\n]{3,60}?)(?:[\s,;.]+\1\b){2,}")  # a phrase said three times in a row


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
    for number in doubtful(found, replies):
        singly = [line.request(sampling) for line in found[number].by_line()]
        again = one(await calls.each(singly, BAND, f"-{number}-again"))
        replies[number] = better(replies[number], again, found[number])
    if len(replies) == 1:
        return dataclasses.replace(replies[0], text=bands.whole(found, [replies[0].text]))
    return one(replies, functools.partial(bands.whole, found))


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


def print_length(band: Band) -> float:
    """Length of all lines of a band's print, in heights of a small x; 0 where it has none that is known."""
    if not band.bodies:
        return 0.0
    inked = bands.inked(band.grey)
    length = 0.0
    for first, last in band.bodies:
        columns = np.flatnonzero(inked[first:last].any(axis=0))
        if len(columns):
            length += 1 + float(np.minimum(np.diff(columns), max(1.0, BLANK * band.x_height)).sum())
    return length / band.x_height


def doubtful(asked: Sequence[Band], replies: Sequence[Reply]) -> list[int]:
    """Numbers of the bands of a block whose texts do not fit their print. Of a single line, none: it would be asked the
    same again."""
    lengths = [print_length(band) for band in asked]
    rates = [len(reply.text.strip()) / length if length else 0.0 for reply, length in zip(replies, lengths)]
    whole = [rate for rate, length in zip(rates, lengths) if length >= SHORTEST]
    usual = statistics.median(whole) if len(whole) >= PEERS else None
    return [
        number
        for number, (band, reply) in enumerate(zip(asked, replies))
        if len(band.bodies) > 1
        and (reply.note is None or reply.note.has_text)
        and lengths[number] >= SHORTEST
        and (reply.note is not None or not fits(reply.text, rates[number], usual))
    ]


def fits(text: str, rate: float, usual: float | None) -> bool:
    """Whether ``text``, with ``rate`` letters for each small x of print, may be what the print says."""
    if not LEAST <= rate <= MOST or AGAIN.search(text):
        return False
    return usual is None or abs(rate / usual - 1) <= USUAL


def better(first: Reply, second: Reply, band: Band) -> Reply:
    """Of two replies to one band the one whose length fits its print better; the tokens of both count."""
    length = print_length(band)

    def misfit(reply: Reply) -> tuple[bool, float]:
        rate = len(reply.text.strip()) / length
        return (
            reply.note is not None or bool(AGAIN.search(reply.text)),
            max(0.0, LEAST - rate, rate - MOST) if reply.text.strip() else 9.0,
        )

    chosen = second if misfit(second) <= misfit(first) else first
    tokens = (first.tokens[0] + second.tokens[0], first.tokens[1] + second.tokens[1])
    return Reply(chosen.text, chosen.note, tokens, chosen.confidence)


SMALL_PRINT = BlockReading(read_small_print, with_captions, own_table)
