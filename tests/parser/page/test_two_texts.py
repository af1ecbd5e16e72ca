# SPDX-License-Identifier: Apache-2.0
"""The VLM's text of a block beside the page's own: how far they agree, what differs, and what repairs come to."""

from __future__ import annotations

import pytest

from docparser.page.alignment import TABLE_MARKS, TEXT_MARKS, Alignment, is_misread, repaired

# the VLM's, the page's, agreement, differences, repaired
TEXTS = [
    ("id OBJEGT", "id OBJECT", 0.875, [("OBJEGT", "OBJECT")], "id OBJECT"),
    ("gluedwords and  more", "glued words and more", 1, [], "glued words and more"),
    ("a line\nand another", "a line and another", 1, [], "a line\nand another"),
    ("\ufb01ne, \uff21\uff11 e\u0301", "fine, A1 \u00e9", 1, [], "fine, A1 \u00e9"),
    ("soft hyphen", "soft hy\u00adphen", 1, [], "soft hyphen"),
    ("大小是 12 个字", "大水是 12 个字", 0.8571, [("小", "水")], "大水是 12 个字"),
    ("he said so so so", "he said so", 0.8, [("so so", "")], "he said so"),
    ("some lost here", "some words lost here", 0.8276, [("", "words")], "some words lost here"),
    (r"where \(x_i^2\), is small", "where xi2, is small", 1, [], r"where \(x_i^2\), is small"),
    (r"\(x\) is smal1 here", "x is small here", 0.9091, [("smal1", "small")], r"\(x\) is small here"),
    ("E=mc<sup>2</sup> holds", "E=mc2 holds", 1, [], "E=mc<sup>2</sup> holds"),
    ("E=mc<sup>2</sup> holds", "E=mc\u00b2 holds", 1, [], "E=mc<sup>2</sup> holds"),
    ("10\u00b3 m2 of", "103 m\u00b2 of", 1, [], "10\u00b3 m\u00b2 of"),
    ("据统计<sup>①</sup>增长", "据统计①增长", 1, [], "据统计<sup>①</sup>增长"),
    # A sign that counts as several letters stays one; a ligature is no sign.
    ("3½ ㎡, Ab™, fine… ls", "3½ ㎡, Ab™, \ufb01ne… is", 0.9524, [("ls", "is")], "3½ ㎡, Ab™, fine… is"),
    # Marks stay where letters are misread on both sides of them.
    ("Li<sup>l</sup>,Wu wrote it", "Li1;Wu wrote it", 0.8462, [("l ,Wu", "Li1;Wu")], "Li<sup>1</sup>;Wu wrote it"),
    ("10<sup>-3</sup>M is small", "10−3m is small", 0.75, [("-3 M", "10−3m")], "10<sup>−3</sup>m is small"),
    ("see **Tab1e** 3 and", "see Table 8 and", 0.75, [("Tab1e 3", "Table 8")], "see **Table** 8 and"),
    ("see **Tab1e** 33 and", "see Table 8 and", 0.72, [("Tab1e 33", "Table 8")], "see **Table 8** and"),
    ("in 10\u00b3 m", "in 108 m", 0.8333, [("10\u00b3", "108")], "in 108 m"),
    ("nothing alike", "zzz qqq", 0, [("nothing alike", "zzz qqq")], None),
    ("", "", None, [], None),
]


@pytest.mark.parametrize("vlm, page, agreement, differences, text", TEXTS, ids=lambda value: repr(value)[:30])
def test_a_text(vlm: str, page: str, agreement: float | None, differences: list, text: str | None):
    both = Alignment.of(vlm, page, TEXT_MARKS)
    assert both.agreement == agreement
    assert both.differences() == differences
    assert repaired(both, whole=True) == text


TABLES = [
    ("<fcel>Nane<fcel>1O<nl><fcel>Pen<fcel>20<nl>", "Name 10 Pen 20", "<fcel>Name<fcel>10<nl><fcel>Pen<fcel>20<nl>"),
    ("<fcel>a b<ecel><nl><fcel>c<fcel>d<nl>", "a b c d", "<fcel>a b<ecel><nl><fcel>c<fcel>d<nl>"),
    # Nobody knows in which of the two cells a letter is that stands between them on the page.
    ("<fcel>Pens<fcel>Inks<nl>", "Pens? Inks", "<fcel>Pens<fcel>Inks<nl>"),
    # What the page does not say may be in a picture: rules and pictures are not the text's.
    ("<fcel>Pens<fcel>seen<nl>", "Pens", "<fcel>Pens<fcel>seen<nl>"),
]


@pytest.mark.parametrize("otsl, page, text", TABLES)
def test_a_table_keeps_its_marks(otsl: str, page: str, text: str):
    assert repaired(Alignment.of(otsl, page, TABLE_MARKS), whole=False) == text


def test_what_a_table_has_invented_leaves_its_cell():
    both = Alignment.of("<fcel>Pens<fcel>so 20<nl><fcel>no Ink<fcel>3<nl>", "Pens 20 Ink 3", TABLE_MARKS)
    assert repaired(both, whole=True) == "<fcel>Pens<fcel>20<nl><fcel>Ink<fcel>3<nl>"


MISREAD = [
    ("nothing alike", "what it says", True),
    ("", "what it says", True),
    ("says it what", "what it says", False),  # in another order
    (r"\(x^2\)", "x2", False),
    ("some of what", "what it says", True),
    ("some", "", False),
]


@pytest.mark.parametrize("vlm, page, misread", MISREAD)
def test_who_lacks_most_words_has_misread_them(vlm: str, page: str, misread: bool):
    assert is_misread(Alignment.of(vlm, page, TEXT_MARKS)) is misread


def test_every_letter_is_in_one_op():
    both = Alignment.of("the quick brovvn fox, thrice\n" * 20, "the quick brown fox, thrice " * 19, TEXT_MARKS)
    ends = [(op[2], op[4]) for op in both.ops]
    assert [(op[1], op[3]) for op in both.ops] == [(0, 0), *ends[:-1]]
    assert ends[-1] == (len(both.vlm.compared), len(both.page.compared))
