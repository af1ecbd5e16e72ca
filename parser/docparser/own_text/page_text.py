# SPDX-License-Identifier: Apache-2.0
"""A page's own text, block by block, each with a verdict: this is what the worker asks."""

from __future__ import annotations

import collections
import dataclasses
import functools
import re
from collections.abc import Iterable

import numpy as np

from docparser.own_text.characters import Characters
from docparser.own_text.lines import Arrangement, Line, compounds_of, middles, paragraph, with_hyphens
from docparser.own_text.truth import UNDRAWN, Doubt, Judge
from docparser.places.box import Box

MOST_RUNS = 4_000  # of a page; real ones have some hundreds
ACROSS, DOWN = 1.0, 0.7  # ems between runs of one piece, outside of blocks
CID = re.compile(r"\(cid:\d+\)")
LATIN, CYRILLIC_OR_GREEK = re.compile(r"[A-Za-z\u00c0-\u024f]"), re.compile(r"[\u0370-\u03ff\u0400-\u052f]")
# Letters of Cyrillic and Greek that are drawn as Latin ones are.
DISGUISED = re.compile(r"[асеорхуіјѕһԁАВСЕНІЈКМОРЅТХУΑΒΕΖΗΙΚΜΝΟΡΤΥΧονρ]+")
UNITS = re.compile(r"[μΩ]")  # beside Latin letters: micrometres, kiloohms
BLANK = 0.35  # of a line's height: a wide blank between two words
MARKER = re.compile(r"[-\u2022\u2023\u2013\u25aa\u25cf\u25e6*\u00b7]|\(?(?:\d{1,3}|[A-Za-z])[.)]")  # of an item
WITHOUT_BLANKS = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]")


@dataclasses.dataclass(frozen=True)
class BlockText:
    """What the page says in ``box`` (pixels). ``doubts`` are why it must not be taken, the gravest first; without any,
    it is true: every character was found in the picture, and no print besides.

    A doubtful text is for comparisons only: it may be a lie, and must reach no output.
    """

    box: Box
    lines: tuple[Line, ...]
    doubts: tuple[Doubt, ...]

    @property
    def true(self) -> bool:
        return not self.doubts

    @property
    def text(self) -> str:
        """The lines as one paragraph: blanks between them (none between ideographs), hyphens of line ends taken out."""
        return paragraph(self.lines)

    def hyphened_as(self, text: str) -> BlockText:
        """The same, where hyphens at the ends of lines stay if ``text`` has the words with them."""
        return dataclasses.replace(self, lines=with_hyphens(self.lines, compounds_of(text)))


class OwnText:
    """The text of one page. Cheap to make where the page says nothing; the picture is looked at once, by the first
    question."""

    def __init__(self, characters: Characters, pixels: np.ndarray) -> None:
        """``pixels``: the picture that the renderer sent with them, uint8 ``[height, width, 3]``, blue first. A page
        that was turned or flattened since has other places: make none for it. Characters that are strewn over the page,
        in more than MOST_RUNS runs, are no text: the page says nothing then."""
        if len(characters.runs()) > MOST_RUNS:
            characters = Characters.none()
        self._characters, self._pixels = characters, pixels
        self._middles = middles(characters)

    @functools.cached_property
    def _judge(self) -> Judge:
        return Judge(self._characters, self._pixels)

    @functools.cached_property
    def _compounds(self) -> frozenset[str]:
        """Words that have their hyphen within a line."""
        lines = Arrangement.of(self._part(~self._judge.hidden)).lines
        return frozenset().union(*(compounds_of(line.text) for line in lines))

    def __len__(self) -> int:
        """Characters on the page that are said to be drawn; 0 for a scan, also one with another's OCR."""
        return int((~np.isin(self._characters.styles["mode"], UNDRAWN))[self._characters.each["style"]].sum())

    def blocks(self, boxes: Iterable[tuple[float, float, float, float]]) -> list[BlockText]:
        """The text of each box (left, top, right, bottom), in their order. A character belongs to every box that holds
        the middle of its place on the line: ask for boxes that do not overlap where a text must come once."""
        return [self._block(Box(*map(float, box)), self._inside(box)) for box in boxes]

    def outside(self, boxes: Iterable[tuple[float, float, float, float]]) -> list[BlockText]:
        """The text that lies in none of ``boxes``, in pieces that stand together (paragraphs, rows of a table without
        rules), from top to bottom. Only what can be seen on the page: what is hidden is in ``hidden``."""
        if not len(self._characters):
            return []
        height, width = self._pixels.shape[:2]
        left = self._inside((0, 0, width, height)) & ~self._judge.hidden
        for box in boxes:
            left &= ~self._inside(box)
        found = []
        for indices in self._pieces(np.flatnonzero(left)):
            inside = np.zeros(len(self._characters), bool)
            inside[indices] = True
            edges = self._part(indices).each["box"]
            box = Box(*edges[:, :2].min(0).tolist(), *edges[:, 2:].max(0).tolist())
            found.append(self._block(box, inside))
        return sorted(found, key=lambda block: (block.box.top, block.box.left))

    @property
    def hidden(self) -> collections.Counter[Doubt]:
        """Characters that the page says and does not show, by the reason: a file that lies often has many."""
        if not len(self._characters):
            return collections.Counter()
        counts, rest = collections.Counter[Doubt](), self._judge.hidden.copy()
        for doubt, which in self._judge.doubts.items():
            if number := int((which & rest).sum()):
                counts[doubt] = number
                rest &= ~which
        return counts

    def _inside(self, box: tuple[float, float, float, float]) -> np.ndarray:
        inside: np.ndarray = (self._middles >= box[:2]) & (self._middles <= box[2:])
        return np.all(inside, axis=1)

    def _part(self, which: np.ndarray) -> Characters:
        """Those characters (bool, or their indices), in boxes that end with the page: print may reach over its edge."""
        each = self._characters.each[which]
        height, width = self._pixels.shape[:2]
        each["box"] = np.clip(each["box"], 0, [width, height, width, height])
        return Characters(each, self._characters.styles)

    def _block(self, box: Box, inside: np.ndarray) -> BlockText:
        if not inside.any():
            return BlockText(box, (), (Doubt.EMPTY,))
        arranged = Arrangement.of(self._part(inside))
        doubts = [] if self._characters.complete else [Doubt.TOO_MUCH]
        doubts += self._judge.doubts_of(box, inside)
        if not doubts and arranged.unordered:
            doubts.append(Doubt.DIRECTIONS)
        words = [word.text for line in arranged.lines for word in line.words]
        if Doubt.UNMAPPED not in doubts and any(CID.search(word) for word in words):
            doubts.append(Doubt.UNMAPPED)
        if _mixed(words):
            doubts.append(Doubt.MIXED_SCRIPTS)
        lines = arranged.lines
        if any(line.broken for line in lines):
            lines = with_hyphens(lines, self._compounds)
        return BlockText(box, lines, tuple(doubts))

    def _pieces(self, indices: np.ndarray) -> list[np.ndarray]:
        """Characters that stand together: runs of a line, and such runs that follow each other downwards."""
        if not len(indices):
            return []
        part = self._part(indices)
        begins = part.runs()
        em = np.maximum(part.styles["size"][part.each["style"][begins]], 1.0)[:, None]
        reach = np.concatenate([ACROSS * em, DOWN * em], 1) / 2
        lows = np.minimum.reduceat(part.each["box"][:, :2], begins) - reach
        highs = np.maximum.reduceat(part.each["box"][:, 2:], begins) + reach
        members = [[run] for run in np.split(indices, begins[1:])]
        alive = np.zeros(len(begins), bool)  # a run that was taken into a later one is not
        for number in range(len(begins)):
            while True:  # what is taken in makes it larger, so that it may reach more
                meet = alive & (lows <= highs[number]).all(1) & (highs >= lows[number]).all(1)
                near = np.flatnonzero(meet)
                if not len(near):
                    break
                lows[number] = np.minimum(lows[number], lows[near].min(0))
                highs[number] = np.maximum(highs[number], highs[near].max(0))
                members[number] = [run for other in near for run in members[other]] + members[number]
                alive[near] = False
            alive[number] = True
        return [np.sort(np.concatenate(members[number])) for number in np.flatnonzero(alive)]


def _mixed(words: list[str]) -> bool:
    """Whether letters of two alphabets make a word, or look like those of another alphabet than they are of."""
    foreign = [word for word in words if CYRILLIC_OR_GREEK.search(word)]
    if not foreign:
        return False
    latin = sum(bool(LATIN.search(word)) for word in words)
    return any(
        (LATIN.search(word) and CYRILLIC_OR_GREEK.search(UNITS.sub("", word)))
        or (len(word) > 1 and latin > len(words) / 2 and DISGUISED.fullmatch(word))
        for word in foreign
    )


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
