# SPDX-License-Identifier: Apache-2.0
"""Ends of lines that were meant, as in lists and addresses, put back into a text that the VLM read without them
(docs/decisions/0304).

The print says which ends were meant: the first word of the next line would have stood in the room that the line leaves
(``own_text.page_text`` has the same rule for a PDF's own text). Where they are in the text follows from how wide each
line is and how wide its words would be.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from docparser.places.grids.bodies import runs
from docparser.small_print.bands import Band, inked, joined

BLANK = 0.2  # of a line's height: white between two words is wider
ROOM = 0.25  # of a line's height, that a line leaves besides the room for a blank and the next word
NARROWEST = 16.0  # heights of a line: about 25 letters
LEAST_EM, MOST_EM = 0.8, 1.9  # heights of a line
MISFIT = 0.2  # of a line's width: words that miss it by more are not the line's
NARROW, USUAL, WIDE, CAPITAL = 0.28, 0.52, 0.82, 0.68  # ems


@dataclasses.dataclass(frozen=True)
class _Line:
    """Px in the block's picture: where its ink begins and ends, how wide its first word is, how wide the white behind
    that (0: none), how high it is."""

    left: int
    right: int
    first_word: int
    blank: int
    height: int

    @property
    def width(self) -> int:
        return self.right - self.left


def whole(bands: Sequence[Band], texts: Sequence[str]) -> str:
    """The texts of a block's bands as one, with an end of line where one was meant."""
    printed = [[line for body in band.bodies if (line := _line(band.grey, body))] for band in bands]
    meant = _meant([line for lines in printed for line in lines])
    parts: list[list[str]] = [[]]
    for text, lines in zip(texts, printed, strict=True):
        own, meant = meant[: len(lines)], meant[len(lines) :]
        pieces = _broken(text, lines, own[:-1])
        parts[-1].append(pieces[0])
        parts += [[piece] for piece in pieces[1:]]
        if own and own[-1] and text.strip():
            parts.append([])
    return "\n".join(filter(None, map(joined, parts)))


def _line(grey: np.ndarray, body: tuple[int, int]) -> _Line | None:
    words = runs(np.asarray(inked(grey)[body[0] : body[1]].any(axis=0)))
    if not words:
        return None
    height, end, blank = body[1] - body[0], words[0][1], 0
    for first, last in words[1:]:
        if first - end >= BLANK * height:
            blank = first - end
            break
        end = last
    return _Line(words[0][0], words[-1][1], end - words[0][0], blank, height)


def _meant(lines: Sequence[_Line]) -> list[bool]:
    """Of each line of a block, whether its end was meant; of the last one, no. Where half were, all were: the longest
    line of a list leaves no room. No paragraph is set as narrow as an address."""
    if len(lines) < 2:
        return [False] * len(lines)
    left, right = min(line.left for line in lines), max(line.right for line in lines)
    flush = len(lines) > 2 and all(right - line.right < ROOM * line.height for line in lines)  # to the right
    blank = float(np.median([line.blank for line in lines if line.blank] or [0]))
    found = [
        (line.left - left if flush else right - line.right) > below.first_word + blank + ROOM * below.height
        for line, below in zip(lines, lines[1:])
    ]
    narrow = right - left < NARROWEST * float(np.median([line.height for line in lines]))
    return [*([True] * len(found) if narrow or 2 * sum(found) >= len(found) else found), False]


def _broken(text: str, lines: Sequence[_Line], meant: Sequence[bool]) -> list[str]:
    """``text`` of ``lines`` in pieces, parted where the end of a line but the last was ``meant``."""
    words = text.split()
    if not any(meant) or len(words) < len(lines):
        return [text]
    ends = _ends(words, lines)
    if ends is None:
        return [text]
    cuts = [0, *(end for end, wanted in zip(ends, meant) if wanted), len(words)]
    return [" ".join(words[first:last]) for first, last in zip(cuts, cuts[1:])]


def _ends(words: Sequence[str], lines: Sequence[_Line]) -> list[int] | None:
    """How many words have been said at the end of each line, so that widths fit best. None: they do not fit."""
    widths = np.array([sum(map(_width, word)) for word in words])
    said = np.concatenate(([0.0], np.cumsum(widths + NARROW)))
    scale = sum(line.width for line in lines) / (said[-1] - NARROW * len(lines))  # px of an em
    if not LEAST_EM <= scale / float(np.median([line.height for line in lines])) <= MOST_EM:
        return None
    count = len(words)
    best = np.full(count + 1, np.inf)
    best[0] = 0.0
    came: list[np.ndarray] = []
    for line in lines:
        spans = (said[None, :] - said[:, None] - NARROW) * scale  # from word to word
        costs = best[:, None] + np.square(spans - line.width)
        costs[np.tril_indices(count + 1)] = np.inf  # a line has a word
        came.append(costs.argmin(axis=0))
        best = costs.min(axis=0)
    if not np.isfinite(best[-1]):
        return None
    ends = [count]
    for before in reversed(came[1:]):
        ends.append(int(before[ends[-1]]))
    ends.reverse()
    for line, first, last in zip(lines, [0, *ends], ends):
        span = (said[last] - said[first] - NARROW) * scale
        if abs(span - line.width) > MISFIT * line.width + line.height:
            return None
    return ends


def _width(letter: str) -> float:
    if letter in "iljtfI.,:;!|'()[]-":
        return NARROW
    return WIDE if letter in "mwMW" else CAPITAL if letter.isupper() else USUAL
