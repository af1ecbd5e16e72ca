# SPDX-License-Identifier: Apache-2.0
"""Words that were lost or invented, and the lists of pages."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest
import yaml

from demo_training.outside import pages, texts
from demo_training.outside.measure import said
from demo_training.outside.packages import plain
from demo_training.outside.words import words, wrong


@pytest.mark.parametrize(
    "text, found",
    [
        ("An exam-\nple: \u201cof\u201d  (it)!", ["An", "example", "of", "it"]),
        ("\u2022 o\ufb03ce \u2013 3.5 %", ["office", "3.5"]),
        ("pack\ufffeages and exam\x02\r\nples", ["packages", "and", "examples"]),
        ("well-known Jean-\nPaul", ["well", "known", "Jean", "Paul"]),
        ("don\u2019t", ["don't"]),
    ],
)
def test_words(text: str, found: list[str]):
    assert words(text) == found


def test_words_are_lost_invented_and_changed():
    assert wrong(["a", "b", "c"], ["a", "b", "c"]) == 0
    assert wrong(["a", "b", "c"], ["a", "x", "c"]) == 1
    assert wrong(["a", "b", "c"], ["c"]) == 2
    assert wrong([], ["x", "y"]) == 2


def test_a_page_says_what_its_markdown_has_of_the_body():
    def block(label: str, top: int, text: str) -> dict:
        return {"block_label": label, "block_bbox": [0, top, 100, top + 20], "block_content": text}

    blocks = [block("text", 500, "body"), block("text", 10, "head"), block("footer", 500, "foot")]
    page = {"height": 1000, "parsing_res_list": blocks}
    assert said(page, (0.075, 0.925)) == ["body"] and said(page, (0, 1)) == ["body", "head"]


def test_no_page_is_for_choosing_and_for_judging():
    listed = yaml.safe_load(pages.LIST.read_text())
    packages = {split: {manual["package"] for manual in listed[split]} for split in ("choose", "judge")}
    assert not packages["choose"] & packages["judge"] and all(packages.values())
    assert listed["texts"]["choose"]["package"] != listed["texts"]["judge"]["package"]


def test_files_of_packages_may_be_compressed(tmp_path: Path):
    (tmp_path / "a.pdf.gz").write_bytes(gzip.compress(b"pdf"))
    assert plain(tmp_path / "a.pdf") == plain(tmp_path / "a.pdf.gz") == b"pdf"
    with pytest.raises(FileNotFoundError, match="is not in the package"):
        plain(tmp_path / "b.pdf")


def test_texts_are_prose(tmp_path: Path):
    prose = [f"Paragraph {'abcdefghij'[number % 10] * (number + 1)} " + "of plain words " * 8 for number in range(25)]
    (tmp_path / "a.txt").write_text("\n\n".join([*prose, "short", "| 1 | 2 |" * 30]))
    found = texts.paragraphs(tmp_path)
    assert len(found) == 25
    quoted = texts.Quoted(random.Random(1), found)
    assert quoted.paragraph() and quoted.item() and quoted.title() and len(quoted.code()) > 1
    with pytest.raises(FileNotFoundError, match="expected 20"):
        texts.paragraphs(tmp_path / "none")
