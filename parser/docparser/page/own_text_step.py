# SPDX-License-Identifier: Apache-2.0
"""What a page's own text is for, by the request's ``textLayer``: a step of the page's loop around the VLM's reading.

``check`` compares what the VLM reads with it. ``repair`` also takes letters from it. ``prefer`` also takes plain blocks
whole, without the VLM. Whether a text is true says ``own_text``; one that is not reaches no answer and no note.

``grown`` before blocks are cut, ``taken`` before the VLM is asked, ``settle`` for each of its replies, ``notes`` at the
end. Where the page says nothing (``own`` is None), it is read as if there were no such step.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from docparser.contract.answers import Note
from docparser.contract.schemas import TextLayer
from docparser.formula_signs import is_of_formulas
from docparser.own_text.lines import Line
from docparser.own_text.page_text import BlockText, OwnText, paragraphs
from docparser.own_text.truth import Doubt
from docparser.page.alignment import TABLE_MARKS, TEXT_MARKS, Alignment, is_misread, repaired
from docparser.page.blocks import FORMULAS, Blocks
from docparser.page.provenance import PAGE, VLM, Origin
from docparser.page.question import TABLE_PROMPT, TEXT_PROMPT
from docparser.page.run import OwnTable, Settled
from docparser.places.box import Sides, around, holds, middle
from docparser.vlm.client import Reply

CHECK, PREFER = "check", "prefer"
# Blocks that are words and nothing else. Of tables, formulas, charts and seals the VLM makes more than letters.
PLAIN = frozenset({
    "abstract", "algorithm", "aside_text", "content", "doc_title", "figure_title", "footer", "footnote", "header",
    "number", "paragraph_title", "reference_content", "text", "vertical_text", "vision_footnote",
})  # fmt: skip
BASE = re.compile(r"[^\W\d_]|.*[)\]|]")  # a single letter, or what ends in a bracket
SIGNS_OF_EXPONENTS = re.compile(r"[\d()\[\]+=\-\u2212\u2013]")  # among letters
BROKEN_NUMBER = re.compile(r"\d[./]\d")
AGREES = 0.98  # a block with less is doubtful where its text is the VLM's
BESIDE = 1.0  # of a line's height: no wider is the gap within a line
LEAST_OUTSIDE = 2  # letters or digits; a lone sign is a bullet, or dirt
MOST_NOTES, MOST_TOLD, LONGEST = 10, 3, 60  # blocks of a page; differences of a block; characters of each

# The kinds of notes.
DIFFERS = "differs"  # the VLM's text and the page's own
OUTSIDE = "outside"  # the page has text in no block
HIDDEN = "hidden"  # the page has text that is not seen on it


@dataclasses.dataclass(frozen=True)
class Grown:
    """Boxes of a layout, of which those of words hold their lines to the end: a layout model may cut a word, or leave
    the mark of an item out. ``further``: boxes of text that lies in none of them, which become blocks; ``unread``: such
    texts where they become none. Both from top to bottom."""

    boxes: list[dict[str, Any]]
    further: list[Sides]
    unread: list[BlockText]


@dataclasses.dataclass(frozen=True)
class Taken:
    """``blocks``, of which those are joined that are read as one. By their numbers, ``said``: what the page says of
    each that the VLM may be asked about; ``given``: those that it need not be asked about. ``textless``: whose the text
    of a block without any is; None where the page says nothing."""

    blocks: Blocks
    said: Mapping[int, BlockText]
    given: Mapping[int, Settled]
    textless: Origin | None = None

    @property
    def exact(self) -> frozenset[int]:
        """Of the blocks that are given those whose text has no mark of the VLM's language."""
        return frozenset(number for number in self.given if self.blocks.questions[number].prompt != TABLE_PROMPT)

    @property
    def true_lines(self) -> dict[int, tuple[Line, ...]]:
        """By the blocks' numbers, the lines that the page says and that are true, all of them."""
        return {number: said.lines for number, said in self.said.items() if _letters_are_true(said)}


def grown(own: OwnText | None, mode: TextLayer | None, boxes: list[dict[str, Any]]) -> Grown:
    """``boxes``: those of the layout of which blocks are made."""
    if own is None:
        return Grown(boxes, [], [])
    pieces = own.outside([box["coordinate"] for box in boxes])
    if mode == CHECK:
        return Grown(boxes, [], _texts_among(pieces))
    boxes, pieces = _with_pieces(boxes, pieces)
    return Grown(boxes, [piece.box for piece in _texts_among(pieces)], [])


def taken(
    own: OwnText | None,
    mode: TextLayer | None,
    blocks: Blocks,
    boxes: list[dict[str, Any]],
    own_table: OwnTable | None = None,
) -> Taken:
    """``boxes``: of the layout, also those of formulas within texts, which are no blocks. ``own_table``: see
    ``page.run``."""
    if own is None:
        return Taken(blocks, {}, {})
    said = _said(own, blocks)
    further = {number: said[number] for number in blocks.further}
    texts = {number: paragraphs(text) for number, text in further.items() if text.true and not _has_formulas(text)}
    if mode == PREFER:
        for together, text in _plain(own, blocks, said, boxes):
            texts |= {together[0]: paragraphs(text)} | dict.fromkeys(together[1:], "")
            said[together[0]] = text
            blocks = blocks.joining(together)
        if own_table is not None:
            texts |= _tables(own, blocks, said, own_table)
    given = {number: Settled(Reply(text), Origin(PAGE if text else None)) for number, text in sorted(texts.items())}
    return Taken(blocks, said, given, Origin())


def settle(reply: Reply, said: BlockText | None, prompt: str, mode: TextLayer | None) -> Settled:
    """The reply of the VLM to a block as it counts. One that is missing or cut stays what it is. ``said``: what the
    page says of the block; None where it says nothing at all."""
    if said is None:
        return Settled(reply)
    origin = Origin(VLM if reply.text else None)
    # Rules of a table, and underlines, are ink that no letter accounts for: the letters that are there are true.
    if prompt not in (TEXT_PROMPT, TABLE_PROMPT) or not _letters_are_true(said):
        return Settled(reply, origin)
    said = said.hyphened_as(reply.text)  # what a hyphen at a line's end is for, the page does not say
    agreement: float | None = None
    text: str | None = None
    difference: Alignment | None = None
    if reply.note is not None:  # it stays: the VLM has failed, or its text was cut
        is_lost = prompt == TEXT_PROMPT
    elif prompt == TEXT_PROMPT and reply.text.split() == said.text.split():  # most blocks, at no cost
        agreement, text, is_lost = 1.0, reply.text, False
    else:
        both = Alignment.of(reply.text, said.text, TABLE_MARKS if prompt == TABLE_PROMPT else TEXT_MARKS)
        agreement, text = both.agreement, repaired(both, whole=said.true)
        is_lost = text is None and prompt == TEXT_PROMPT and is_misread(both)
        if agreement is not None and agreement < AGREES and (mode == CHECK or (text is None and not is_lost)):
            difference = both
    if is_lost:
        text = paragraphs(said)
    if mode == CHECK or text is None:
        return Settled(reply, Origin(origin.source, agreement, difference is not None), difference)
    return Settled(dataclasses.replace(reply, text=text), Origin(PAGE, agreement, difference is not None), difference)


def notes(
    own: OwnText | None, differences: Iterable[tuple[int | None, Alignment]], unread: Iterable[BlockText]
) -> list[Note]:
    """``differences``: with the blocks' places in the answer, which those within tables do not have."""
    if own is None:
        return []
    found = [*(_differs(place, both) for place, both in differences), *map(_is_outside, unread)][:MOST_NOTES]
    if hidden := {reason: count for reason, count in own.hidden.items() if reason != Doubt.INVISIBLE}:
        reasons = ", ".join(f"{reason} {count}" for reason, count in sorted(hidden.items()))
        told = f"{sum(hidden.values())} characters of the page's own text are not visible on it and are not used"
        found.append(Note(kind=HIDDEN, message=f"{told} ({reasons})"))
    return found


def _letters_are_true(said: BlockText) -> bool:
    return not set(said.doubts) - {Doubt.OTHER_INK}


def _texts_among(pieces: Iterable[BlockText]) -> list[BlockText]:
    return [piece for piece in pieces if piece.true and _letters(piece.text) >= LEAST_OUTSIDE]


def _plain(
    own: OwnText, blocks: Blocks, said: Mapping[int, BlockText], boxes: Iterable[dict[str, Any]]
) -> list[tuple[list[int], BlockText]]:
    """Blocks that are words and nothing else, with what the page says of them. Blocks that hold words of each other
    are read as one: the first has the text of all, the others are empty."""
    formulas = [box["coordinate"] for box in boxes if box["label"] in ("inline_formula", *FORMULAS)]
    words = [number for number in blocks.questions if _is_words(number, blocks, said[number], formulas)]
    found = []
    for together in _clusters(words, blocks, said):
        box = around(blocks.cut[number]["box"] for number in together)
        text = said[together[0]] if len(together) == 1 else own.blocks([box])[0]
        parts = {part for number in together for part in blocks.joined(number)}
        others = [other["box"] for number, other in enumerate(blocks.cut) if number not in parts]
        if text.true and not any(holds(other, middle(line.box)) for line in text.lines for other in others):
            found.append((together, text))
    return found


def _is_words(number: int, blocks: Blocks, said: BlockText, formulas: Sequence[Sides]) -> bool:
    if blocks.cut[number]["label"] not in PLAIN or not said.true or _has_formulas(said):
        return False
    own = [blocks.cut[one]["box"] for one in blocks.joined(number)]
    return not any(holds(box, middle(formula)) for box in own for formula in formulas)


def _tables(own: OwnText, blocks: Blocks, said: Mapping[int, BlockText], own_table: OwnTable) -> dict[int, str]:
    """Tables in OTSL whose cells the page gives, where their grid can be found without the VLM."""
    found = {}
    for number, question in blocks.questions.items():
        if question.prompt != TABLE_PROMPT or not _letters_are_true(said[number]):
            continue
        left, top = (int(side) for side in blocks.cut[number]["box"][:2])
        otsl = own_table(question, (left, top), said[number], own.blocks)
        if otsl is not None:
            found[number] = otsl
    return found


def _clusters(words: Sequence[int], blocks: Blocks, said: Mapping[int, BlockText]) -> list[list[int]]:
    """Blocks by whether they hold words of each other; one that was joined from several stands alone."""
    clusters: list[list[int]] = []
    for number in words:
        near = [
            cluster
            for cluster in clusters
            if len(blocks.joined(number)) == 1
            and any(
                len(blocks.joined(other)) == 1
                and any(
                    holds(blocks.cut[at]["box"], middle(word.box))
                    for at, lines in ((number, said[other].lines), (other, said[number].lines))
                    for line in lines
                    for word in line.words
                )
                for other in cluster
            )
        ]
        clusters = [cluster for cluster in clusters if cluster not in near]
        clusters.append(sorted({number}.union(*near)))
    return clusters


def _with_pieces(layout: list[dict[str, Any]], pieces: list[BlockText]) -> tuple[list[dict[str, Any]], list[BlockText]]:
    """The boxes with the pieces of text that stand right beside them, on their lines; and the other pieces."""
    layout, rest = list(layout), []
    for piece in pieces:
        beside = [
            (_gap(box["coordinate"], piece), number)
            for number, box in enumerate(layout)
            if box["label"] in PLAIN and box.get("polygon_points") is None
        ]
        gap, number = min(beside, default=(math.inf, 0))
        if gap < math.inf:
            layout[number] = layout[number] | {"coordinate": list(around([layout[number]["coordinate"], piece.box]))}
        else:
            rest.append(piece)
    return layout, rest


def _gap(box: Sides, piece: BlockText) -> float:
    """Pixels between a box and a narrower piece beside it; infinite where they are no parts of the same lines."""
    left, top, right, bottom = piece.box
    height = min((line.box.bottom - line.box.top for line in piece.lines), default=0.0)
    gap = max(left - box[2], box[0] - right, 0.0)
    same = top >= box[1] - height / 2 and bottom <= box[3] + height / 2 and right - left < box[2] - box[0]
    return gap if same and gap <= BESIDE * height else math.inf


def _said(own: OwnText, blocks: Blocks) -> dict[int, BlockText]:
    """What the page says of each block that the VLM may be asked about; of blocks that were joined, all together."""
    parts = {number: blocks.joined(number) for number in blocks.questions}
    asked = [number for joined in parts.values() for number in joined]
    found = dict(zip(asked, own.blocks([blocks.cut[number]["box"] for number in asked]), strict=True))
    return {number: _together([found[part] for part in joined]) for number, joined in parts.items()}


def _together(parts: list[BlockText]) -> BlockText:
    if len(parts) == 1:
        return parts[0]
    lines = tuple(line for part in parts for line in part.lines)
    doubts = tuple(dict.fromkeys(doubt for part in parts for doubt in part.doubts))
    return dataclasses.replace(parts[0], lines=lines, doubts=doubts)


def _has_formulas(said: BlockText) -> bool:
    """Lowered letters, exponents, and signs that only formulas have."""
    lowered = any(word.script < 0 for line in said.lines for word in line.words)
    return lowered or any(map(_has_exponents, said.lines)) or any(map(is_of_formulas, said.text))


def _has_exponents(line: Line) -> bool:
    """A raised number is Unicode's, and several raised letters are an ordinal's or a mark's ("4th", "TM"). More are an
    exponent: a letter by itself or with signs, letters behind a single one or a bracket, a broken number."""
    base = ""
    for raised, words in itertools.groupby(line.words, key=lambda word: word.script > 0):
        group = list(words)
        text = unicodedata.normalize("NFKC", "".join(word.text for word in group))
        if not raised:
            base = group[-1].text
        elif not any(map(str.isalpha, text)):
            if BROKEN_NUMBER.search(text):
                return True
        elif len(text) == 1 or SIGNS_OF_EXPONENTS.search(text) or (group[0].joined and BASE.fullmatch(base)):
            return True
    return False


def _letters(text: str) -> int:
    return sum(unicodedata.category(sign)[0] in "LN" for sign in text)


def _differs(place: int | None, both: Alignment) -> Note:
    found = both.differences()
    told = [
        f"invented {_short(ours)}" if not theirs else f"lost {_short(theirs)}" if not ours
        else f"{_short(ours)} for {_short(theirs)}"
        for ours, theirs in found[:MOST_TOLD]
    ]  # fmt: skip
    more = f" and {len(found) - MOST_TOLD} more" if len(found) > MOST_TOLD else ""
    block = "a block" if place is None else f"block {place}"
    message = f"{block}: the VLM's text agrees by {both.agreement} with the page's own: {', '.join(told)}{more}"
    return Note(kind=DIFFERS, message=message)


def _is_outside(piece: BlockText) -> Note:
    place = ", ".join(f"{side:.0f}" for side in piece.box)
    said = f"the page's own text {_short(piece.text)} lies in no block and was not read"
    return Note(kind=OUTSIDE, message=f"{said}: [{place}] (left, top, right, bottom in pixels)")


def _short(text: str) -> str:
    return repr(text if len(text) <= LONGEST else text[: LONGEST - 3] + "...")
