# SPDX-License-Identifier: Apache-2.0
"""What a page's own text is for, by the mode: which blocks the VLM is asked about, whose the texts are, and what is
noted. What the page says is simulated; that it is true is for ``own_text`` to say, and told here."""

from __future__ import annotations

import collections
from collections.abc import Iterable
from typing import Any, cast

import numpy as np
import pytest

from docparser.contract.schemas import ParseOptions
from docparser.own_text.lines import Line, Word
from docparser.own_text.page_text import BlockText, OwnText
from docparser.own_text.truth import Doubt
from docparser.page.provenance import PAGE, VLM, Origin
from docparser.places.box import Box
from docparser.vlm.client import Reply
from docparser.vlm.failures import BlockNote

HIGH, WIDE = 20, 10  # pixels of a line, and of a letter
Boxed = tuple[str, tuple[float, float, float, float]]  # a label, and where


def line(text: str, left: float = 0, top: float = 0, **more: Any) -> Line:
    words, at = [], left
    for word in text.split():
        words.append(Word(word, Box(at, top, at + WIDE * len(word), top + HIGH)))
        at += WIDE * (len(word) + 1)
    return Line(text, Box(left, top, at - WIDE, top + HIGH), tuple(words), **more)


class SimulatedText:
    """The page's own text: lines where they stand; blocks named by a word of theirs have doubts."""

    def __init__(self, *lines: Line, doubts: dict[str, tuple[Doubt, ...]] | None = None) -> None:
        self._lines, self._doubts = lines, doubts or {}
        self.hidden: collections.Counter[Doubt] = collections.Counter()

    def __len__(self) -> int:
        return sum(len(line.text) for line in self._lines)

    def blocks(self, boxes: Iterable[tuple[float, float, float, float]]) -> list[BlockText]:
        return [self._block(Box(*box), [one for one in self._lines if _in(one, box)]) for box in boxes]

    def outside(self, boxes: Iterable[tuple[float, float, float, float]]) -> list[BlockText]:
        all_boxes = list(boxes)
        return [self._block(one.box, [one]) for one in self._lines if not any(_in(one, box) for box in all_boxes)]

    def _block(self, box: Box, lines: list[Line]) -> BlockText:
        found = [doubts for word, doubts in self._doubts.items() if any(word in one.text for one in lines)]
        return BlockText(box, tuple(lines), found[0] if found else () if lines else (Doubt.EMPTY,))


def _in(one: Line, box: Iterable[float]) -> bool:
    left, top, right, bottom = box
    return left <= (one.box.left + one.box.right) / 2 <= right and top <= one.box.top + HIGH / 2 <= bottom


class Read:
    """A page of 800 x 1000 pixels read in a mode. ``replies``: the VLM's, by the blocks' labels."""

    def __init__(self, mode: str, own: SimulatedText | None, boxes: list[Boxed], replies: dict[str, Reply]) -> None:
        from docparser.page.blocks import apart, page_blocks
        from docparser.page.own_text_step import grown, notes, settle, taken

        page = np.full((1000, 800, 3), 255, np.uint8)
        layout = [
            {"cls_id": 0, "label": label, "score": 0.9, "coordinate": list(box), "order": at}
            for at, (label, box) in enumerate(boxes)
        ]
        flags = ("use_chart_recognition", "use_seal_recognition", "use_ocr_for_image_block", "merge_layout_blocks")
        # As a worker does: a page that says nothing has no text of its own.
        text = cast(OwnText, own) if own is not None and len(own) and mode != "off" else None
        asked_for: Any = mode
        found = apart(layout)
        more = grown(text, asked_for, found)
        options, settings = ParseOptions(layoutShapeMode="rect"), dict.fromkeys(flags, False)
        made = taken(text, asked_for, page_blocks(page, more.boxes, [], settings, options, more.further), found)
        self.blocks = made.blocks
        labels = [block["label"] for block in self.blocks.cut]
        self.asked = [labels[number] for number in self.blocks.questions if number not in made.given]
        read = {
            number: settle(replies[labels[number]], made.said.get(number), question.prompt, asked_for)
            for number, question in self.blocks.questions.items()
            if number not in made.given
        }
        settled = dict(sorted({**read, **made.given}.items()))
        self.replies = {number: one.reply for number, one in settled.items()}
        self.texts = [(self.replies[number].text if number in self.replies else None) for number in
                      range(len(labels))]  # fmt: skip
        self.origins = [settled[number].origin if number in settled else made.textless for number in range(len(labels))]
        different = [(number, one.difference) for number, one in settled.items() if one.difference is not None]
        self.notes = notes(text, different, more.unread)


BOXES: list[Boxed] = [
    ("doc_title", (0, 0, 800, 50)),
    ("text", (0, 100, 800, 200)),
    ("table", (0, 300, 800, 400)),
    ("image", (0, 500, 800, 600)),
    ("footnote", (0, 900, 800, 950)),
]
OTSL = "<fcel>Pan<fcel>3<nl>"
REPLIES = {
    "doc_title": Reply("A tit1e"),
    "text": Reply("words of it"),
    "table": Reply(OTSL),
    "footnote": Reply("seen"),
}
SAID = (
    line("A title", 0, 10),
    line("words of it", 0, 110),
    line("Pen 3", 0, 310),
    line("a row in no block", 0, 420),
    line("*", 700, 420),
    line("a fraud", 0, 910),
)
LIES: dict[str, tuple[Doubt, ...]] = {"fraud": (Doubt.SHAPES,), "Pen": (Doubt.OTHER_INK,)}  # a table's rules
TITLE, WORDS, ROW, CELLS = "A title", "words of it", "a row in no block", "<fcel>Pen<fcel>3<nl>"
MODES: dict[str, tuple[list[str], list[str | None], list[Origin], list[str]]] = {
    "off": (["doc_title", "text", "table", "footnote"], ["A tit1e", WORDS, OTSL, None, "seen"], [], []),
    "check": (
        ["doc_title", "text", "table", "footnote"],
        ["A tit1e", WORDS, OTSL, None, "seen"],
        [Origin(VLM, 0.8333, True), Origin(VLM, 1.0), Origin(VLM, 0.75, True), Origin(), Origin(VLM)],
        ["differs", "differs", "outside"],
    ),
    "repair": (
        ["doc_title", "text", "table", "footnote"],
        [TITLE, WORDS, CELLS, ROW, None, "seen"],
        [Origin(PAGE, 0.8333), Origin(PAGE, 1.0), Origin(PAGE, 0.75), Origin(PAGE), Origin(), Origin(VLM)],
        [],
    ),
    "prefer": (
        ["table", "footnote"],
        [TITLE, WORDS, CELLS, ROW, None, "seen"],
        [Origin(PAGE), Origin(PAGE), Origin(PAGE, 0.75), Origin(PAGE), Origin(), Origin(VLM)],
        [],
    ),
}


@pytest.mark.parametrize("mode", MODES)
def test_a_mode(mode: str):
    asked, texts, origins, kinds = MODES[mode]
    read = Read(mode, SimulatedText(*SAID, doubts=LIES), BOXES, REPLIES)
    assert read.asked == asked
    assert read.texts == texts
    expected: list[Origin | None] = [*origins] or [None] * 5
    assert read.origins == expected
    assert [note["kind"] for note in read.notes] == kinds
    assert "fraud" not in str(read.notes), "what is not true is told nowhere"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("own", [None, SimulatedText()], ids=["no PDF", "a scan"])
def test_a_page_that_says_nothing_is_read_as_ever(mode: str, own: SimulatedText | None):
    read = Read(mode, own, BOXES, REPLIES)
    assert read.asked == MODES["off"][0] and read.texts == MODES["off"][1]
    assert read.origins == [None] * 5 and read.notes == []


def raised_words(base: str, *raised: str) -> Line:
    at = Box(0, 110, 30, 130)
    return Line("".join((base, *raised)), at, (Word(base, at), *(Word(word, at, 1, True) for word in raised)))


# why the VLM reads a block of text all the same: what stands in its box, and beside it
NOT_PLAIN: dict[str, tuple[Line, list[Boxed]]] = {
    "a lowered letter": (
        Line("x i", Box(0, 110, 30, 130), (Word("x", Box(0, 110, 10, 130)), Word("i", Box(20, 115, 30, 135), -1))),
        [],
    ),
    "a raised letter": (
        Line("xn", Box(0, 110, 30, 130), (Word("x", Box(0, 110, 10, 130)), Word("n", Box(20, 105, 30, 115), 1, True))),
        [],
    ),
    **{
        f"{base} to the {raised}": (raised_words(base, *raised.split()), [])
        for base, raised in (
            ("a", "2n"),
            ("2", "n+1"),
            ("2", "n +1"),
            ("e", "\u2212kt"),
            ("x", "ij"),
            ("f(x)", "ij"),
            ("A", "(i)"),
            ("x", "\u00b9/\u00b2"),
            ("10", "\u00b2.\u2075"),
        )
    },
    "an operator": (line("for all x \u2208 y", 0, 110), []),
    "an italic letter": (line("where \U0001d465 is", 0, 110), []),
    "a formula's box": (line("where x is", 0, 110), [("inline_formula", (60, 110, 80, 130))]),
    "a picture over it": (line("where x is", 0, 110), [("image", (0, 105, 800, 140))]),
}


@pytest.mark.parametrize("why", NOT_PLAIN)
def test_the_vlm_reads_what_is_more_than_words(why: str):
    said, others = NOT_PLAIN[why]
    replies = {label: Reply("what the VLM reads") for label in ("text", "inline_formula")}
    read = Read("prefer", SimulatedText(said), [BOXES[1], *others], replies)
    assert "text" in read.asked


@pytest.mark.parametrize("base, raised", [("4", "th"), ("Name", "TM"), ("x", "\u00b2"), ("10", "\u207b\u00b3"),
                                          ("word", "\u00b9,\u00b2"), ("H", "+")])  # fmt: skip
def test_raised_words_and_numbers_are_words(base: str, raised: str):
    assert Read("prefer", SimulatedText(raised_words(base, raised)), BOXES[1:2], {}).asked == []


def test_the_vlm_reads_formulas_that_no_block_holds():
    said = raised_words("a", "2n")
    read = Read("prefer", SimulatedText(said), BOXES[:1], {"text": Reply("what the VLM reads"), "doc_title": Reply("")})
    assert read.asked == ["doc_title", "text"]


def test_blocks_that_hold_lines_of_each_other_are_one_text():
    """The layout model has cut a paragraph askew; what each of them holds would be read twice, or in halves."""
    boxes: list[Boxed] = [("text", (0, 0, 300, 100)), ("text", (0, 50, 400, 200)), ("text", (0, 300, 400, 400))]
    said = [line("one two", 0, 10), line("three four", 0, 60), line("five", 0, 150), line("apart", 0, 310)]
    read = Read("prefer", SimulatedText(*said), boxes, {})
    assert read.asked == [] and read.texts == ["one two three four five", "", "apart"]
    assert [origin and origin.source for origin in read.origins] == [PAGE, None, PAGE]
    assert [block.get("group_id") for block in read.blocks.cut] == [0, 0, None]


def test_blocks_that_share_words_are_one_text():
    """One box ends within a line, and another begins there: neither holds the middle of the other's line."""
    boxes: list[Boxed] = [("text", (0, 0, 150, 100)), ("text", (140, 0, 400, 100)), ("text", (0, 300, 400, 400))]
    said = [line("one two three four five six", 0, 10), line("seven", 300, 60), line("apart", 0, 310)]
    read = Read("prefer", SimulatedText(*said), boxes, {})
    assert read.asked == [] and [(text or "").split() for text in read.texts] == [
        ["one", "two", "three", "four", "five", "six", "seven"], [], ["apart"]]  # fmt: skip


@pytest.mark.parametrize("note", [BlockNote("failed", "broke"), BlockNote("length", "cut")])
def test_where_the_vlm_has_failed_the_page_still_has_its_text(note: BlockNote):
    """The block keeps its note: whoever reads the answer is told."""
    own, replies = SimulatedText(SAID[0]), {"doc_title": Reply("A tit", note)}
    check, repair = (Read(mode, own, BOXES[:1], replies) for mode in ("check", "repair"))
    assert (check.texts[0], check.origins[0]) == ("A tit", Origin(VLM))
    assert (repair.texts[0], repair.origins[0]) == (TITLE, Origin(PAGE))
    assert repair.replies[0].note == note


@pytest.mark.parametrize("read", ["a well-known word", "a wellknown word"])
def test_the_vlm_says_what_a_hyphen_at_a_lines_end_is_for(read: str):
    own = SimulatedText(line("a well-", 0, 110, broken=True), line("known word", 0, 140))
    found = Read("repair", own, BOXES[1:2], {"text": Reply(read)})
    assert found.texts == [read] and found.origins[0] == Origin(PAGE, 1.0)


@pytest.mark.parametrize("mode, text", [("check", "#f8 BK4*45"), ("repair", "words of it"), ("prefer", "words of it")])
def test_words_that_are_there_and_that_the_vlm_does_not_read(mode: str, text: str):
    """A drawing beside them is why the VLM is asked at all."""
    own = SimulatedText(SAID[1], doubts={"words": (Doubt.OTHER_INK,)})
    read = Read(mode, own, BOXES[1:2], {"text": Reply("#f8 BK4*45")})
    assert read.asked == ["text"] and read.texts[0] == text
    assert read.origins[0] is not None and read.origins[0].source == (VLM if mode == "check" else PAGE)


COLUMNS: list[Boxed] = [
    ("text", (0, 0, 300, 100)),
    ("text", (0, 300, 300, 400)),
    ("text", (400, 0, 700, 100)),
    ("text", (400, 300, 700, 400)),
]
PLACES = [(0, 150, 1), (400, 150, 3), (0, 500, 2), (400, 500, 4)]  # left and top of a line in no block; its number


@pytest.mark.parametrize("left, top, number", PLACES)
def test_text_in_no_block_stands_behind_what_is_above_it(left: int, top: int, number: int):
    said = [line("read", box[0], box[1] + 10) for _, box in COLUMNS]
    read = Read("prefer", SimulatedText(*said, line("between", left, top)), COLUMNS, {})
    assert read.texts.index("between") == number and read.texts.count("read") == 4


BESIDE: dict[str, tuple[Line, list[str]]] = {
    "the end of a word that the box cuts": (line("ing", 305, 40), ["stand\ning"]),
    "the mark of an item": (line("\u2022", -15, 40), ["stand \u2022"]),
    "the other column": (line("other", 340, 40), ["stand", "other"]),
    "below it": (line("below", 0, 110), ["stand", "below"]),
}


@pytest.mark.parametrize("what", BESIDE)
def test_a_box_of_words_holds_its_lines_to_the_end(what: str):
    piece, texts = BESIDE[what]
    read = Read("prefer", SimulatedText(line("stand", 0, 10), piece), COLUMNS[:1], {})
    assert read.texts == texts


@pytest.mark.parametrize("mode", ["check", "prefer"])
def test_a_box_around_references_holds_no_text(mode: str):
    """PaddleX makes no block of it, so what the entries' boxes leave out is in no block."""
    boxes: list[Boxed] = [("reference", (0, 0, 800, 300)), ("reference_content", (100, 0, 800, 100))]
    said = [line("Smith 2019", 110, 10), line("Jones 2020", 110, 200)]
    read = Read(mode, SimulatedText(*said), boxes, {"reference_content": Reply("Smith 2019")})
    assert read.texts == ["Smith 2019", *(["Jones 2020"] if mode == "prefer" else [])]
    assert [note["kind"] for note in read.notes] == (["outside"] if mode == "check" else [])


def test_groups_of_joined_blocks_stay_groups():
    from docparser.page.blocks import with_further

    page = np.zeros((500, 800, 3), np.uint8)
    blocks = [
        {"label": "text", "box": [0, top, 300, top + 50], "img": page, "group_id": group}
        for top, group in ((0, None), (100, 1), (200, 1))
    ]
    found, added = with_further(page, blocks, [(0, 60, 300, 80)])
    assert added == {1} and found[1]["img"].shape == (21, 301, 3), "both ends are its own"
    assert [block.get("group_id") for block in found] == [None, None, 2, 2]


def test_hidden_text_is_counted_and_not_told():
    own = SimulatedText(*SAID)
    own.hidden = collections.Counter({Doubt.NO_INK: 40, Doubt.TINY: 2, Doubt.INVISIBLE: 9})
    (note,) = (note for note in Read("prefer", own, BOXES, REPLIES).notes if note["kind"] == "hidden")
    assert "42 characters" in note["message"] and "no_ink 40, tiny 2" in note["message"]


LINES: dict[str, tuple[list[Line], str]] = {
    "a paragraph": ([line("one two three"), line("seventeen", 0, 30)], "one two three seventeen"),
    "a list": ([line("1. a longer first item"), line("2. two", 0, 30), line("goes on", 30, 60)],
               "1. a longer first item\n2. two\ngoes on"),
    "two paragraphs": ([line("one two three"), line("four", 0, 30), line("five six", 0, 60)],
                       "one two three four\nfive six"),
    "nothing": ([], ""),
}  # fmt: skip


@pytest.mark.parametrize("what", LINES)
def test_lines_that_were_meant_stay_lines(what: str):
    from docparser.own_text.page_text import paragraphs

    lines, text = LINES[what]
    assert paragraphs(BlockText(Box(0, 0, 800, 100), tuple(lines), ())) == text
