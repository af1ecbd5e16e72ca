# SPDX-License-Identifier: Apache-2.0
"""What a page's own text is for, by the request's ``textLayer``: a step of the page's loop around the VLM's reading.

``check`` compares what the VLM reads with it. ``repair`` also takes letters from it. ``prefer`` also takes plain blocks
whole, without the VLM. Whether a text is true says ``own_text``; one that is not reaches no answer and no note.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

from docparser.contract.answers import Note
from docparser.own_text.lines import Line
from docparser.own_text.page_text import BlockText, OwnText, paragraphs
from docparser.own_text.truth import Doubt
from docparser.page.alignment import TABLE_MARKS, TEXT_MARKS, Alignment, is_misread, repaired
from docparser.page.blocks import Blocks
from docparser.page.provenance import PAGE, VLM, Origin
from docparser.page.question import TABLE_PROMPT, TEXT_PROMPT
from docparser.page.run import OwnTable
from docparser.places.box import around
from docparser.vlm.client import Reply

OFF, CHECK, REPAIR, PREFER = "off", "check", "repair", "prefer"
# Blocks that are words and nothing else. Of tables, formulas, charts and seals the VLM makes more than letters.
PLAIN = frozenset({
    "abstract", "algorithm", "aside_text", "content", "doc_title", "figure_title", "footer", "footnote", "header",
    "number", "paragraph_title", "reference_content", "text", "vertical_text", "vision_footnote",
})  # fmt: skip
FORMULAS = ("inline_formula", "display_formula", "formula")
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

Box = Sequence[float]  # left, top, right, bottom


class OwnTextStep:
    """Of one page. Where ``own`` is None, or the page says nothing, the page is read as if there were no such thing."""

    def __init__(
        self,
        own: OwnText | None,
        mode: str,
        layout: Iterable[dict[str, Any]],
        *,
        layout_found: bool,
        own_table: OwnTable | None = None,
    ) -> None:
        """``layout``: the boxes that the layout model found; without ``layout_found``, the page as one. ``own_table``:
        see PageRun."""
        self._own_table = own_table
        self._own = own if own is not None and mode != OFF and len(own) else None
        self._mode, self._layout, self._found = mode, list(layout), layout_found
        self._said: dict[int, BlockText] = {}
        self._origins: dict[int, Origin] = {}
        self._settled: dict[int, Reply] = {}
        self._different: dict[int, Alignment] = {}
        self._outside: list[BlockText] = []
        self._places: dict[int, int | None] = {}

    def layout(self) -> list[dict[str, Any]]:
        """The boxes, of which those of words hold their lines to the end: a layout model may cut a word, or leave the
        mark of an item out."""
        if self._own is None or not self._found:
            return self._layout
        pieces = self._own.outside([box["coordinate"] for box in self._layout])
        if self._mode in (REPAIR, PREFER):
            self._layout, pieces = _grown(self._layout, pieces)
        self._outside = [piece for piece in pieces if piece.true and _letters(piece.text) >= LEAST_OUTSIDE]
        return self._layout

    def further(self) -> list[Box]:
        """The boxes of text that lies in no block, from top to bottom, which become blocks."""
        return [piece.box for piece in self._outside] if self._mode in (REPAIR, PREFER) else []

    def given(self, blocks: Blocks) -> dict[int, Reply]:
        """The texts that need no VLM, by the blocks' numbers."""
        if self._own is None:
            return {}
        self._places = {number: place for place, number in enumerate(blocks.shown)}
        self._said = _said(self._own, blocks)
        further = {number: self._said[number] for number in blocks.further}
        texts = {number: paragraphs(said) for number, said in further.items() if said.true and not _has_formulas(said)}
        if self._mode == PREFER:
            texts |= self._plain(self._own, blocks) | self._tables(self._own, blocks)
        self._origins = {number: Origin(PAGE if text else None) for number, text in texts.items()}
        return {number: Reply(text) for number, text in sorted(texts.items())}

    def exact(self, blocks: Blocks, given: Iterable[int]) -> frozenset[int]:
        """Of the blocks that are given those whose text has no mark of the VLM's language."""
        return frozenset(number for number in given if blocks.questions[number].prompt != TABLE_PROMPT)

    def settled(self, blocks: Blocks, number: int, reply: Reply) -> Reply:
        """The reply of the VLM to a block as it counts. One that is missing or cut stays what it is."""
        if self._own is None:
            return reply
        if number not in self._settled:
            self._settled[number] = self._settle(number, reply, blocks)
        return self._settled[number]

    def origins(self, blocks: Blocks) -> dict[int, Origin]:
        """Whose each block's text is; none where the page says nothing."""
        if self._own is None:
            return {}
        return {number: self._origins.get(number, Origin()) for number in range(len(blocks.cut))}

    def true_lines(self, number: int) -> tuple[Line, ...]:
        """The lines of a block, and of those that were joined to it, as the page says them; none where it does not, or
        not all of them are true."""
        if self._own is None or number not in self._said:
            return ()
        said = self._said[number]
        return () if set(said.doubts) - {Doubt.OTHER_INK} else said.lines

    def notes(self) -> list[Note]:
        if self._own is None:
            return []
        notes = [_differs(self._places.get(number), both) for number, both in sorted(self._different.items())]
        if self._mode == CHECK:
            notes += [_is_outside(piece) for piece in self._outside]
        notes = notes[:MOST_NOTES]
        if hidden := {reason: count for reason, count in self._own.hidden.items() if reason != Doubt.INVISIBLE}:
            reasons = ", ".join(f"{reason} {count}" for reason, count in sorted(hidden.items()))
            told = f"{sum(hidden.values())} characters of the page's own text are not visible on it and are not used"
            notes.append(Note(kind=HIDDEN, message=f"{told} ({reasons})"))
        return notes

    def _settle(self, number: int, reply: Reply, blocks: Blocks) -> Reply:
        said, prompt = self._said.get(number), blocks.questions[number].prompt
        self._origins[number] = Origin(VLM if reply.text else None)
        # Rules of a table, and underlines, are ink that no letter accounts for: the letters that are there are true.
        if said is None or prompt not in (TEXT_PROMPT, TABLE_PROMPT) or set(said.doubts) - {Doubt.OTHER_INK}:
            return reply
        said = said.hyphened_as(reply.text)  # what a hyphen at a line's end is for, the page does not say
        agreement: float | None = None
        text: str | None = None
        if reply.note is not None:  # it stays: the VLM has failed, or its text was cut
            is_lost = prompt == TEXT_PROMPT
        elif prompt == TEXT_PROMPT and reply.text.split() == said.text.split():  # most blocks, at no cost
            agreement, text, is_lost = 1.0, reply.text, False
        else:
            both = Alignment.of(reply.text, said.text, TABLE_MARKS if prompt == TABLE_PROMPT else TEXT_MARKS)
            agreement, text = both.agreement, repaired(both, whole=said.true)
            is_lost = text is None and prompt == TEXT_PROMPT and is_misread(both)
            if agreement is not None and agreement < AGREES and (self._mode == CHECK or (text is None and not is_lost)):
                self._different[number] = both
        if is_lost:
            text = paragraphs(said)
        taken = None if self._mode == CHECK else text
        source = PAGE if taken is not None else self._origins[number].source
        self._origins[number] = Origin(source, agreement, number in self._different)
        return reply if taken is None else dataclasses.replace(reply, text=taken)

    def _plain(self, own: OwnText, blocks: Blocks) -> dict[int, str]:
        """The texts of blocks that are words and nothing else. Blocks that hold words of each other are read as one:
        the first has the text of all, the others are empty."""
        words = [number for number in blocks.questions if self._is_words(number, blocks)]
        texts: dict[int, str] = {}
        for together in _clusters(words, blocks, self._said):
            box = around(blocks.cut[number]["box"] for number in together)
            said = self._said[together[0]] if len(together) == 1 else own.blocks([box])[0]
            parts = {part for number in together for part in blocks.joined(number)}
            others = [other["box"] for number, other in enumerate(blocks.cut) if number not in parts]
            if said.true and not any(_holds(other, _middle(line.box)) for line in said.lines for other in others):
                texts |= {together[0]: paragraphs(said)} | dict.fromkeys(together[1:], "")
                self._said[together[0]] = said
                if len(together) > 1:
                    blocks.join(together)
        return texts

    def _tables(self, own: OwnText, blocks: Blocks) -> dict[int, str]:
        """Tables in OTSL whose cells the page gives, where their grid can be found without the VLM."""
        found = {}
        for number, question in blocks.questions.items():
            said = self._said[number]
            if self._own_table is None or question.prompt != TABLE_PROMPT or set(said.doubts) - {Doubt.OTHER_INK}:
                continue
            left, top = (int(side) for side in blocks.cut[number]["box"][:2])
            otsl = self._own_table(question, (left, top), said, own.blocks)
            if otsl is not None:
                found[number] = otsl
        return found

    def _is_words(self, number: int, blocks: Blocks) -> bool:
        said = self._said[number]
        if blocks.cut[number]["label"] not in PLAIN or not said.true or _has_formulas(said):
            return False
        own = [blocks.cut[one]["box"] for one in blocks.joined(number)]
        formulas = [box["coordinate"] for box in self._layout if box["label"] in FORMULAS]
        return not any(_holds(box, _middle(formula)) for box in own for formula in formulas)


def _clusters(words: Sequence[int], blocks: Blocks, said: dict[int, BlockText]) -> list[list[int]]:
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
                    _holds(blocks.cut[at]["box"], _middle(word.box))
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


def _grown(layout: list[dict[str, Any]], pieces: list[BlockText]) -> tuple[list[dict[str, Any]], list[BlockText]]:
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


def _gap(box: Box, piece: BlockText) -> float:
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
    return lowered or any(map(_has_exponents, said.lines)) or any(map(_is_of_formulas, said.text))


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


def _is_of_formulas(sign: str) -> bool:
    if "\U0001d400" <= sign <= "\U0001d7ff":  # italic, bold, script letters
        return True
    return "\u2200" <= sign <= "\u22ff" and sign not in "\u2212\u2215\u2219\u2022\u22ef\u22c5"  # operators


def _letters(text: str) -> int:
    return sum(unicodedata.category(sign)[0] in "LN" for sign in text)


def _middle(box: Box) -> tuple[float, float]:
    return (box[0] + box[2]) / 2, (box[1] + box[3]) / 2


def _holds(box: Box, point: tuple[float, float]) -> bool:
    return box[0] <= point[0] <= box[2] and box[1] <= point[1] <= box[3]


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
