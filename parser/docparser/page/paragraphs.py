# SPDX-License-Identifier: Apache-2.0
"""A block's own lines as text: what was broken for want of room is one paragraph, other lines stay lines."""

from __future__ import annotations

import dataclasses
import re

from docparser.own_text.lines import Line
from docparser.own_text.page_text import BlockText

BLANK = 0.35  # of a line's height: a wide blank between two words
MARKER = re.compile(r"[-\u2022\u2023\u2013\u25aa\u25cf\u25e6*\u00b7]|\(?(?:\d{1,3}|[A-Za-z])[.)]")  # of an item
WITHOUT_BLANKS = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]")


def paragraphs(said: BlockText) -> str:
    """A line ends where it was meant to if the first word of the next one would have stood in the room that it leaves.
    That is so at a paragraph's end, in lists, tables of contents, addresses and programs. An item of a list begins a
    line in any case."""
    groups: list[list[Line]] = []
    edge = max((line.box.right for line in said.lines), default=0.0)
    is_list = bool(said.lines) and _is_item(said.lines[0])
    for number, line in enumerate(said.lines):
        if number and not _was_meant(said.lines[number - 1], line, edge) and not (is_list and _is_item(line)):
            groups[-1].append(line)
        else:
            groups.append([line])
    return "\n".join(dataclasses.replace(said, lines=tuple(group)).text for group in groups)


def _is_item(line: Line) -> bool:
    return bool(line.words) and bool(MARKER.fullmatch(line.words[0].text))


def _was_meant(line: Line, following: Line, edge: float) -> bool:
    if line.down or following.down or line.broken:
        return False
    height = following.box.bottom - following.box.top
    return edge - line.box.right > _first_word(following) + BLANK * height


def _first_word(line: Line) -> float:
    """Its width in pixels; in a script without blanks two letters', because some may not begin a line."""
    if not line.words:
        return 0.0
    first = line.words[0]
    if WITHOUT_BLANKS.match(first.text):
        return 2 * (first.box.right - first.box.left) / len(first.text)
    end = first.box.right
    for word in line.words[1:]:
        if not word.joined:
            break
        end = word.box.right
    return end - first.box.left
