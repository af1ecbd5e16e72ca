# SPDX-License-Identifier: Apache-2.0
"""The door of this room: a block read in small pieces, in the place of ``page.question.read_block``
(docs/decisions/0304)."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Coroutine
from typing import Any

from docparser.page.question import TABLE_PROMPT, TEXT_PROMPT, BlockCalls, Question, Sampling, read_block
from docparser.small_print import bands, cells, lines, second_look
from docparser.small_print.bands import Band
from docparser.vlm.client import Reply
from docparser.vlm.repetition import BAND, TEXT

Request = dict[str, Any]
Join = Callable[[list[str]], str]  # of the texts of a block's parts


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
