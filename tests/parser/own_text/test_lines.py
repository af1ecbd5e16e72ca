# SPDX-License-Identifier: Apache-2.0
"""Words, lines and paragraphs from where characters stand."""

from __future__ import annotations

import numpy as np
import pytest

from docparser.own_text.characters import CHARACTER, STYLE, Characters
from docparser.own_text.lines import Arrangement, paragraph
from docparser.own_text.page_text import OwnText
from tests.support.born_digital import own_text, pdf, text

PAGE = (0.0, 0.0, 1000.0, 1000.0)
EM = 20.0


def said(content: bytes, **keys) -> str:
    (block,) = own_text(pdf(content, **keys)).blocks([PAGE])
    return block.text


def placed(*signs: tuple[str, float, float], em: float = EM) -> Characters:
    """Characters of ``em`` pixels, each with the left end of its baseline."""
    each = np.zeros(len(signs), CHARACTER)
    for row, (letter, x, y) in zip(each, signs, strict=True):
        row["code"], row["origin"], row["box"] = ord(letter), (x, y), (x, y - 0.7 * em, x + 0.45 * em, y)
    return Characters(each, np.array([(0, em, 0, 255, 0)], STYLE))


def spaced(words: str) -> bytes:
    """Words whose letters are placed one by one, a fifth of an em apart, as browsers do."""
    made, x = b"", 60.0
    for sign in words:
        made += text(sign, x=x)
        x += 12 * (WIDTHS.get(sign, 0.556) + 0.2)
    return made


WIDTHS = {"i": 0.222, "l": 0.222, "I": 0.278, " ": 0.278, ".": 0.278, ",": 0.278, "M": 0.833, "r": 0.333, "s": 0.5}
CASES = {
    "words and lines": (text("Two words,", y=300) + text("and more.", y=285), "Two words, and more."),
    "lines in the wrong order": (text("second line", y=285) + text("First and", y=300), "First and second line"),
    "words in the wrong order": (text("word", x=100) + text("First", x=60), "First word"),
    "without blanks": (
        b"BT /Helvetica 12 Tf 60 300 Td [(Wide)-400(gaps)-300(are)-300(blanks)] TJ ET",
        "Wide gaps are blanks",
    ),
    "spaced by the file": (
        b"BT /Helvetica 12 Tf 3.6 Tc 60 300 Td (ANNUAL REPORT, William) Tj 0 Tc ( in 1843) Tj ET",
        "ANNUAL REPORT, William in 1843",
    ),
    "spaced and without blanks": (
        b"BT /Helvetica 12 Tf 3.6 Tc 60 300 Td [(William)-400(Miller)] TJ ET",
        "William Miller",
    ),
    "each spaced letter by itself": (
        text("So they say of him who is", y=320) + spaced("Mr. Miller in Illinois, 3 3"),
        "So they say of him who is Mr. Miller in Illinois, 3 3",
    ),
    "one letter between words": (
        text("So they say of all who", y=320) + text("am") + text("a", x=81.7) + text("Miller", x=91.7),
        "So they say of all who am a Miller",
    ),
    "single letters and no blank of the file": (
        b"".join(text(sign, x=60 + 10 * at) for at, sign in enumerate("abcd")),
        "a b c d",
    ),
    "kerned": (b"BT /Helvetica 12 Tf 60 300 Td [(W)80(e k)-20(er)10(n)] TJ ET", "We kern"),
    "broken at a hyphen": (text("These are docu-", y=300) + text("ments.", y=285), "These are documents."),
    "a hyphen for the rest of a word": (text("die Nord-", y=300) + text("und Ostsee", y=285), "die Nord- und Ostsee"),
    "a hyphen in an address": (text("at example.org/a-", y=300) + text("b/c now", y=285), "at example.org/a-b/c now"),
    "a hyphen that a word has elsewhere": (
        text("Well-known, a well-", y=300) + text("known docu-", y=285) + text("ment.", y=270),
        "Well-known, a well-known document.",
    ),
    "a hyphen of its own": (text("He read the A-", y=300) + text("B file.", y=285), "He read the A- B file."),
    "superscript": (text("x", size=12) + text("2", x=66.5, y=305, size=7) + text("is", x=75, size=12), "x² is"),
    "a superscript with letters": (text("is a") + text("2n", x=78.9, y=305, size=7), "is a2n"),
    "letters for one glyph": (text("a!ce"), "affice"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_text_of_a_block(name):
    content, expected = CASES[name]
    assert (
        said(content, to_unicode={"!": "ffi"} if "!" in content.decode("latin-1") or "glyph" in name else None)
        == expected
    )


def test_raised_and_lowered_ends_are_words_of_their_own():
    content = (
        text("E = mc") + text("2", x=98.2, y=306, size=7) + text("and H", x=115.5) + text("2", x=147.5, y=296, size=7)
    )
    ((line,),) = (block.lines for block in own_text(pdf(content)).blocks([PAGE]))
    assert [(word.text, word.script, word.joined) for word in line.words if word.script] == [
        ("²", 1, True),
        ("2", -1, True),
    ]


def test_columns_are_read_by_their_boxes():
    page = own_text(pdf(text("left one", y=300) + text("right one", x=260, y=300) + text("left two", y=285)))
    left, right = page.blocks([(0, 0, 500, 1000), (500, 0, 1000, 1000)])
    assert (left.text, right.text) == ("left one left two", "right one")


def test_vertical_writing_is_read_down_and_from_the_right():
    columns = [
        (letter, x, 100 + 21 * place)
        for x, word in ((300, "縦書き"), (260, "文字列"))
        for place, letter in enumerate(word)
    ]
    found = Arrangement.of(placed(*columns))
    assert [line.text for line in found.lines] == ["縦書き", "文字列"] and all(line.down for line in found.lines)
    assert paragraph(found.lines) == "縦書き文字列"


def test_characters_over_each_other_have_no_order():
    twice = [(letter, 100 + 10 * place + off, 50) for off in (0, 1) for place, letter in enumerate("abcdef")]
    assert Arrangement.of(placed(*twice)).unordered
    assert not Arrangement.of(placed(("a", 100, 50), ("b", 110, 50))).unordered


def test_what_lies_in_no_box_is_told_in_pieces():
    page = own_text(
        pdf(text("A block of text.", y=400) + text("Name", y=200) + text("17.50", x=300, y=200) + text("Sum", y=100))
    )
    pieces = page.outside([(0, 150, 1000, 250)])
    assert [piece.text for piece in pieces] == ["Name", "17.50", "Sum"] and all(piece.true for piece in pieces)


def test_what_reaches_over_the_pages_edges_is_told_inside_of_them():
    page = own_text(pdf(text("On the left", x=-1.6, y=300) + text("Top", y=492) + text("Right", x=473, y=200)))
    pieces = page.outside([])
    assert {piece.text for piece in pieces} == {"On the left", "Top", "Right"}
    sides = np.array([box for piece in pieces for box in (piece.box, piece.lines[0].words[0].box)])
    assert sides.min() == 0 and sides.max() == 1000, "pixels of the page"


def test_a_page_without_text_has_none():
    page = own_text(pdf(b"0 0 100 100 re f"))
    (block,) = page.blocks([PAGE])
    assert len(page) == 0 and block.doubts == ("empty",) and block.text == "" and page.outside([]) == []
    assert isinstance(page, OwnText) and not page.hidden
