# SPDX-License-Identifier: Apache-2.0
"""The outline of a document: levels by numbers and by the size of print, over all pages, whatever the labels say."""

from __future__ import annotations

import pytest

from docparser.outline import Title, _value, levels
from tests.support.fonts import font

DOCUMENT, SECTION = "doc_title", "paragraph_title"


def printed(*lines: str) -> list[Title]:
    """Titles on pages of 1000 x 1400. A line has the page's number, the label's first letter, the size of the print,
    and the words."""
    titles = []
    for line in lines:
        page, label, size, text = line.split(" ", 3)
        left, top, right, bottom = font(int(size)).getbbox(text)
        box = (100.0, 100.0, 100.0 + right - left + 6, 100.0 + bottom - top + 6)
        titles.append(Title.of(DOCUMENT if label == "d" else SECTION, text, box, int(page), (1000.0, 1400.0)))
    return titles


CASES = {
    "numbers keep their levels, whatever the layout model calls them": (
        ["1 d 48 Opening the Bakery", "1 s 26 1 Before you unlock", "1 s 22 1.1 The yard", "1 s 18 1.1.1 The light",
         "2 d 26 2 Baking order", "2 s 22 2.1 Bread", "3 d 22 2.2 Rolls", "3 d 26 3 Opening"],
        [1, 2, 3, 4, 2, 3, 3, 2],
    ),
    "a title is printed once": (
        ["1 d 48 Opening the Bakery", "1 s 26 1 Keys", "2 d 30 Opening the Bakery", "2 s 26 2 Lights"],
        [1, 2, 0, 2],
    ),
    "without numbers the size of print says it": (
        ["1 d 48 Wells of the Valley", "1 s 30 Why we sample", "1 s 22 The yellow pump", "2 d 30 What we found",
         "2 s 22 Aces", "3 d 22 On the meadows"],
        [1, 2, 3, 2, 3, 3],
    ),
    "sections without numbers have the level of those of their size": (
        ["1 d 44 A Study", "1 s 28 Abstract", "1 s 28 1 Introduction", "2 s 22 1.1 Wells", "2 s 22 Further reading",
         "3 s 28 Acknowledgements"],
        [1, 2, 2, 3, 3, 2],
    ),
    "sections below a chapter of the same number": (
        ["1 d 48 Chapter 1 Water", "1 s 30 1.1 Wells", "2 s 24 1.1.1 Pumps", "3 d 48 Chapter 2 Bread",
         "3 s 30 2.1 Rye"],
        [2, 3, 4, 2, 3],
    ),
    "parts, chapters, sections": (
        ["1 d 40 Part I Ground", "2 d 32 Chapter 1 Clay", "2 s 26 1.1 Dry", "3 d 40 Part II Sky",
         "3 s 32 Chapter 2 Rain"],
        [2, 3, 4, 2, 3],
    ),
    "Roman numbers, letters, brackets": (
        ["1 s 20 I. Introduction", "1 s 20 A. Wells", "1 s 20 1) Old ones", "2 s 20 B. Pumps", "2 s 20 C. Pipes",
         "2 s 20 D. Taps", "3 s 20 II. Results", "3 s 20 A. Wells"],
        [2, 3, 4, 3, 3, 3, 2, 3],
    ),
    "an appendix stands beside sections": (
        ["1 s 26 1 Method", "1 s 20 1.1 Wells", "2 s 26 2 Results", "3 s 26 Appendix A Tables",
         "3 s 26 Appendix B Proofs"],
        [2, 3, 2, 2, 2],
    ),
    "one page out of a document": (["1 d 30 3.2 Method", "1 s 26 3.2.1 Wells", "1 d 30 3.3 Results"], [2, 3, 2]),
    "a number that is no section's": (["1 d 44 101 Wells", "1 s 26 1 Method"], [1, 2]),
    "the highest number that needs none beside it": (["1 d 44 30 Wells", "1 s 26 Method"], [2, 3]),
    "one more": (["1 d 44 31 Wells", "1 s 26 Method"], [1, 2]),
    "high numbers beside each other": (["1 d 44 101 Wells", "1 d 44 102 Pumps"], [2, 2]),
    "a letter that is a Roman number beside one": (
        ["1 s 20 V. Results", "1 s 20 A. Wells", "1 s 20 VI. Ends"], [2, 3, 2],
    ),
    "a title in two blocks, and a smaller one below it": (
        ["1 d 44 Clean Water for the", "1 d 44 Lower Valley", "1 d 24 Annual report", "1 s 24 Summary"],
        [1, 1, 2, 2],
    ),
    "a second document in one file": (
        ["1 d 44 Letter of March", "1 s 24 Wells", "2 d 44 Letter of August", "2 s 24 Pumps"],
        [1, 2, 1, 2],
    ),
    "nothing but sections": (["1 s 24 Wells", "1 s 24 Pumps"], [2, 2]),
    "no headings": ([], []),
}  # fmt: skip


@pytest.mark.parametrize("lines, expected", CASES.values(), ids=CASES)
def test_a_reader_would_draw_it_so(lines: list[str], expected: list[int]):
    assert levels(printed(*lines)) == expected


def test_chinese_headings():
    named = [
        "第一章 总则",
        "第一节 范围",
        "一、目的",
        "（一）适用",
        "1. 水井",
        "第二节 术语",
        "第二章 要求",
        "第一节 水井",
    ]
    assert levels([Title(SECTION, text) for text in named]) == [2, 3, 4, 5, 6, 3, 2, 3]
    report = [Title(DOCUMENT, "水井报告", 1, 0.6, 0.06), Title(SECTION, "1 总则", 1, 0.2, 0.03)]
    report += [Title(SECTION, "1.1 范围", 1, 0.2, 0.025), Title(DOCUMENT, "2 要求", 2, 0.2, 0.03)]
    assert levels(report) == [1, 2, 3, 2]


def test_boxes_of_scans_with_other_resolutions():
    """Each page counts by its own size."""
    titles = [
        Title.of(SECTION, "Wells of the Valley", (0, 0, 380 * scale, 30 * scale), page, (1000 * scale, 1400 * scale))
        for page, scale in enumerate((1.0, 2.0, 0.7))
    ]
    assert levels(titles) == [2, 2, 2]


def test_labels_that_say_what_they_are():
    titles = [Title("content_title", "Contents"), Title(SECTION, "1 Wells"), Title("reference_title", "References")]
    assert levels(titles) == [2, 2, 2]


def test_a_heading_of_two_lines_is_no_larger():
    one = Title(SECTION, "Wells that failed", 1, 0.30, 0.030)
    two = Title(SECTION, "Wells that failed a test in March and in April, and what was done", 1, 0.6, 0.088)
    assert levels([one, two]) == [2, 2]


@pytest.mark.parametrize(
    "text", ["\u516b\u4e00\u5341\u3001", "\u7b2c\u4e09\u4e00\u7ae0", "\u7b2c\u767e\u7ae0", "\u4e00\u96f6."]
)
def test_what_is_no_number_is_a_title_without_one(text: str):
    assert levels([Title(SECTION, text)]) == levels([Title(SECTION, "Wells")]) == [2]


@pytest.mark.parametrize(
    ("text", "number"),
    [("IV", 4), ("ix", 9), ("XIV", 14), ("XL", 40), ("XCIX", 99), ("MIX", None), ("b", 2), ("12", 12),
     ("\u5341", 10), ("\u5341\u4e8c", 12), ("\u4e8c\u5341", 20), ("\u4e5d\u5341\u4e5d", 99), ("\u4e03", 7),
     ("\u516b\u4e00\u5341", None)],
)  # fmt: skip
def test_numbers_of_all_kinds(text: str, number: int | None):
    assert _value(text) == number
