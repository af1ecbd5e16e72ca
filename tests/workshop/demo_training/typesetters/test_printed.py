# SPDX-License-Identifier: Apache-2.0
"""Each typesetter's pages say what is printed on them, and where."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from demo_training.typesetters import chromium, faces, make, office, prose
from demo_training.typesetters.characters import Character
from demo_training.typesetters.printed import PrintedLine, _lines, group, printed_pages

PROGRAMS = {"tex": "pdflatex", "chromium": "chromium", "office": "soffice"}


@pytest.fixture(params=PROGRAMS)
def pages(request, tmp_path):
    if not shutil.which(PROGRAMS[request.param]):
        pytest.skip(f"{PROGRAMS[request.param]} is not installed")
    assert make.make(tmp_path, request.param, 3, "heldout", 2) >= 1
    found = sorted(tmp_path.glob("*.json"))
    return [(path, json.loads(path.read_text())) for path in found]


def test_characters_stand_where_the_picture_has_ink(pages):
    inked = total = 0
    for path, page in pages:
        picture = np.asarray(Image.open(path.with_suffix(".png")).convert("L")).astype(int)
        lines = [line for run in page["runs"] for part in run for line in part]
        assert lines and all(line["text"].isascii() for line in lines)
        for line in lines:
            assert len(line["lefts"]) == len(line["text"]) + 1 and line["lefts"] == sorted(line["lefts"])
            top, bottom = round(line["baseline"] - 1.1 * line["x_height"]), round(line["baseline"] + 1)
            for number, letter in enumerate(line["text"]):
                if letter.isalnum():
                    part = picture[top:bottom, int(line["lefts"][number]) : int(line["lefts"][number + 1]) + 2]
                    inked += part.size > 0 and int(part.max()) - int(part.min()) > 60
                    total += 1
    assert inked > 0.98 * total


def test_blocks_hold_all_ink_and_do_not_overlap(pages):
    told = [(path, page) for path, page in pages if page["blocks"]]
    assert told, "the blocks of no page are known"
    for path, page in told:
        ink = np.asarray(Image.open(path.with_suffix(".png")).convert("L")) < 100
        inside = np.zeros_like(ink)
        for block in page["blocks"]:
            left, top, right, bottom = (round(side) for side in block["bbox"])
            assert not inside[top + 3 : bottom - 2, left + 3 : right - 2].any(), "two blocks overlap"
            inside[top - 2 : bottom + 3, left - 3 : right + 4] = True
        assert (ink & ~inside).sum() < 0.02 * ink.sum()
    labels = {block["label"] for _, page in told for block in page["blocks"]}
    titles = {"paragraph_title", "doc_title"}
    assert "text" in labels and labels & titles and labels <= {"text", *titles, "number"}


def test_a_document_is_made_once(tmp_path, monkeypatch):
    (tmp_path / "tex-0003.done").touch()
    monkeypatch.setitem(make.TYPESETTERS, "tex", None)
    assert make.make(tmp_path, "tex", 3, "train", 2) == 0


def line(text: str, left: float, right: float, baseline: float, x_height: float = 9.0) -> PrintedLine:
    width = (right - left) / len(text)
    return PrintedLine(text, [left + width * number for number in range(len(text) + 1)], baseline, x_height)


def test_lines_below_each_other_are_a_run_in_paragraphs():
    first = [line("a para-", 100, 500, 100), line("graph of", 100, 500, 124), line("three", 100, 180, 148)]
    second = [line("more room above", 100, 500, 190), line("and the rest", 100, 420, 214)]
    runs = group([*first, *second, line("a heading", 100, 300, 270, 16.0), None, line("far away", 100, 300, 900)])
    assert [[len(part) for part in run] for run in runs] == [[3, 2], [1], [1]]
    assert [each.joined for each in runs[0][0]] == [True, False, False]


def test_a_hyphen_before_a_capital_or_a_digit_parts_no_word():
    for after in ("Paul", "7 of"):
        runs = group([line("Jean-", 100, 500, 100), line(after, 100, 500, 124)])
        assert not runs[0][0][0].joined


def test_what_cannot_be_said_or_seen_ends_a_run():
    def character(text: str, left: float, top: float = 10.0, known: bool = True) -> Character:
        return Character(text, left, left + 8, top, top + 9, known)

    seen = [character("a", 0), None, character("?", 0, 30, known=False), None, character("e", 0, 50)]
    assert [found and found.text for found in _lines(seen)] == ["a", None, "e"]
    tiny = [Character("a", 0, 2, 10, 12), Character("e", 2, 4, 10, 12)]
    assert list(_lines(tiny)) == [None]


def test_ligatures_and_quotes_are_said_in_letters(tmp_path):
    if not shutil.which("pdflatex"):
        pytest.skip("pdflatex is not installed")

    class Fixed:
        def paragraph(self) -> str:
            return 'the office of difficult flags isn\'t "fluffy" & costs 5% of $1 -- see #3 <x> {y} a_b ~c ^d \\e |f|'

        title = paragraph

        def item(self) -> str:
            return "fish"

        def term(self) -> str:
            return "file"

        def code(self) -> list[str]:
            return ["if x < 3: y = {}"]

    for seed in range(4):
        made = make.TYPESETTERS["tex"](random.Random(seed), Fixed(), tmp_path, 1)
        printed = printed_pages(made.pdf, 2.0, made.blocks)
        said = [each.text for page in printed for run in page.runs for part in run for each in part]
        assert "office of difficult flags" in " ".join(said)


def test_held_out_prose_is_not_that_of_training():
    train, heldout = prose.library("train"), prose.library("heldout")
    assert len(train[0]) > 5 * len(heldout[0]) > 0
    assert len(set(train[0]) & set(heldout[0])) < 0.1 * len(heldout[0]), "a few docstrings stand in two files"
    with pytest.raises(ValueError, match="expected one of"):
        prose.library("test")


def test_a_missing_typesetter_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    for name, package in (("tex", "texlive"), ("chromium", "chromium"), ("office", "libreoffice")):
        with pytest.raises(FileNotFoundError, match=f"apt-get install {package}"):
            make.TYPESETTERS[name](random.Random(1), prose.Prose(random.Random(1), "train"), Path(tmp_path), 1)


def test_every_face_has_a_package_and_a_missing_one_is_named(monkeypatch):
    assert {*chromium.FACES, *chromium.MONO, *office.FACES} <= set(faces.PACKAGES)
    there = "\n".join(face for face in faces.PACKAGES if face not in ("Lato", "Hack"))
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(subprocess, "run", lambda *words, **more: subprocess.CompletedProcess(words, 0, there))
    with pytest.raises(FileNotFoundError, match="apt-get install fonts-hack fonts-lato$"):
        faces.require_faces()
    there += "\nLato,Lato Light\nHack"
    faces.require_faces()
