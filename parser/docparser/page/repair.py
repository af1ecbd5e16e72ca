# SPDX-License-Identifier: Apache-2.0
"""The VLM's structure with the page's own letters: lines, marks and formulas of the one, words of the other."""

from __future__ import annotations

import collections
import re

from docparser.page.alignment import FORMULA, TABLE_MARKS, TEXT_MARKS, WIDE, Alignment, Op

MARKS = re.compile(f"{TABLE_MARKS.pattern}|{TEXT_MARKS.pattern}")
AT_MARK = re.compile(f" *({TABLE_MARKS.pattern}) *")
LEAST = 0.5  # agreement: below it the two are not the same text, in this order


def repaired(both: Alignment, *, whole: bool) -> str | None:
    """The text; None where the two texts are too different to be one. Unless the page's text is ``whole``, what only
    the VLM has may be in a picture, and stays. In a table, a difference that reaches over a mark stays the VLM's, for
    nobody knows which cell it belongs to."""
    agreement = both.agreement
    if agreement is None or agreement < LEAST:
        return None
    parts = [_part(both, op, whole) for op in both.ops]
    return AT_MARK.sub(r"\1", "".join(parts) + both.vlm.gaps[-1]).strip()


def is_misread(both: Alignment) -> bool:
    """Whether the VLM lacks most words that are there. It may have them in another order, or as formulas."""
    if FORMULA in both.vlm.compared or not both.page.compared:
        return False
    ours, theirs = collections.Counter(both.vlm.of_words), collections.Counter(both.page.of_words)
    return (ours & theirs).total() < LEAST * theirs.total()


def _part(both: Alignment, op: Op, whole: bool) -> str:
    """What an op comes to, with the gap before it."""
    tag, begin, end, other, last = op
    vlm, page = both.vlm, both.page
    if tag == "equal":
        return "".join(
            _gap(vlm.gaps[at], page.gaps[other + at - begin], *_beside(both, other + at - begin))
            + page.shown[other + at - begin]
            for at in range(begin, end)
        )
    keeps = both.is_formula(op) or _reaches_over_a_mark(both, begin, end)
    if keeps or (tag == "delete" and not whole):
        return "".join(vlm.gaps[at] + vlm.shown[at] for at in range(begin, end))
    if begin == end and TABLE_MARKS.search(vlm.gaps[begin]):
        return ""  # lost beside a mark: of the cell before it or behind it
    if tag == "delete":
        return "".join(MARKS.findall("".join(vlm.gaps[begin:end])))
    before = vlm.gaps[begin] if begin < end else ""
    return _gap(before, page.gaps[other], *_beside(both, other)) + page.text(other, last)


def _beside(both: Alignment, at: int) -> tuple[str, str]:
    """The page's letter, and the one before it."""
    return both.page.compared[at], both.page.compared[at - 1] if at else ""


def _gap(vlm: str, page: str, letter: str, before: str) -> str:
    """The VLM's lines and marks; where it has none, a blank where the page has one, for it knows its words."""
    if vlm.strip(" ") or WIDE.match(letter) or WIDE.match(before):
        return vlm
    return " " if page and before else ""


def _reaches_over_a_mark(both: Alignment, begin: int, end: int) -> bool:
    return any(TABLE_MARKS.search(both.vlm.gaps[at]) for at in range(begin + 1, end))
