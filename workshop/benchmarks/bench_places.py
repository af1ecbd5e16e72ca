#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure where the places of words, lines and cells are found (`places`), on typeset pages whose truth is known.

    PYTHONPATH=workshop:parser:common .venvs/parser/bin/python workshop/benchmarks/bench_places.py [--documents 8]

Documents are set by Chromium and LibreOffice, half of Chromium's with words broken over lines. Their text layers say
where each word stands; that place, cut to its ink, is the truth. A paragraph is a block, whose text is given without
fault: what the VLM misreads is measured by the share `misread`, in which one word in ten has other letters. `ink` sees
the picture alone, `page` the text layer too. Tables are drawn, in each style of the demo's training, with one line in
a cell.

Found is a place whose text is the truth's, with an intersection over union of at least one half. `wrong` are places
that are said and not found. Of cells, `right` are those whose box has all of their ink and none of another's.
Prints JSON. Needs Chromium, LibreOffice and fonts.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import random
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pypdfium2
from PIL import Image

from demo_training.drawing.fonts import FACES
from demo_training.pages.page import Page
from demo_training.pages.tables import RULES, set_table
from demo_training.typesetters import chromium, office
from demo_training.typesetters.blocks import Form
from demo_training.typesetters.printed import PrintedLine, printed_pages
from demo_training.typesetters.prose import Prose
from docparser.own_text.page_text import OwnText
from docparser.own_text.pdfium_text import characters_of
from docparser.page.places import Ground, ground_of_lines, ground_of_table, ground_of_words, places_of
from docparser.places.box import Box, around
from docparser.places.ink import lines_in

SCALE = 2.0  # pixels a point: PARSER_PDF_SCALE
INK = 170  # grey below it is ink
AROUND = 3  # px around a block, as a layout model leaves them
FOUND = 0.5
LONG = re.compile(r"\b[a-z]{7,}\b")
MISREAD = 0.1


class Hyphenated:
    """Prose that may be broken behind every third letter of its long words."""

    def __init__(self, prose: Prose) -> None:
        self._prose = prose

    def paragraph(self) -> str:
        return LONG.sub(lambda word: "\u00ad".join(re.findall("..?.?", word[0])), self._prose.paragraph())

    def title(self) -> str:
        return self._prose.title()

    def item(self) -> str:
        return self._prose.item()

    def term(self) -> str:
        return self._prose.term()

    def code(self) -> list[str]:
        return self._prose.code()


@dataclasses.dataclass(frozen=True)
class Piece:
    """``text[start:end]`` stands in ``box``."""

    start: int
    end: int
    box: Box


@dataclasses.dataclass(frozen=True)
class Paragraph:
    text: str
    words: list[Piece]
    lines: list[Piece]
    box: Box


def overlap(one: Box, other: Box) -> float:
    """Intersection over union."""
    width = min(one.right, other.right) - max(one.left, other.left)
    height = min(one.bottom, other.bottom) - max(one.top, other.top)
    if width <= 0 or height <= 0:
        return 0.0
    both = width * height
    return both / (one.width * one.height + other.width * other.height - both)


def inked(ink: Image.Image, left: float, top: float, right: float, bottom: float) -> Box | None:
    """The ink in a box."""
    frame = round(left), round(top), round(right), round(bottom)
    found = ink.crop(frame).getbbox()
    return Box(*(found[side] + frame[side % 2] for side in range(4))) if found else None


def paragraph(lines: list[PrintedLine], ink: Image.Image) -> Paragraph | None:
    said = [line.text[:-1] if line.joined else f"{line.text} " for line in lines[:-1]]
    text, at = "".join([*said, lines[-1].text]), 0
    words: list[Piece] = []
    rows: list[Piece] = []
    for line in lines:
        place, row = 0, list[Piece]()
        for word in line.text.split(" "):
            begin, place = place, place + len(word) + 1
            hyphen = line.joined and place == len(line.text) + 1
            start = text.index(word[: len(word) - hyphen], at) if word else at
            ends = line.lefts[begin], line.lefts[begin + len(word)]
            box = inked(ink, ends[0], line.top - 2, ends[1], line.bottom + 2)
            if word and box:
                at = start + len(word) - hyphen
                row.append(Piece(start, at, box))
        if row:
            words += row
            rows.append(Piece(row[0].start, row[-1].end, around(piece.box for piece in row)))
    if not rows:
        return None
    whole = around(row.box for row in rows)
    box = Box(whole.left - AROUND, whole.top - AROUND, whole.right + AROUND, whole.bottom + AROUND)
    return Paragraph(text, words, rows, box)


def documents(count: int) -> Iterator[tuple[Image.Image, OwnText, list[Paragraph]]]:
    """Page by page."""
    for number in range(count):
        name, setter = (("chromium", chromium), ("office", office))[number % 4 == 3]
        rng = random.Random(f"places-{number}")
        prose = Prose(rng, "heldout")
        with tempfile.TemporaryDirectory() as folder:
            made = setter.typeset(rng, Hyphenated(prose) if number % 2 else prose, Path(folder), 2, Form())
            print(f"document {number + 1} of {count}: {name}", file=sys.stderr, flush=True)
            pdf = pypdfium2.PdfDocument(made.pdf)
            printed = list(printed_pages(made.pdf, SCALE, made.blocks))
            for page, view in zip(printed, pdf, strict=False):
                pixels = np.asarray(page.image)[:, :, ::-1].copy()
                own = OwnText(characters_of(view, page.image.width, page.image.height), pixels)
                ink = page.image.convert("L").point([255 if level < INK else 0 for level in range(256)])
                found = [paragraph(lines, ink) for run in page.runs for lines in run]
                yield page.image, own, [one for one in found if one]
            pdf.close()


class Tally:
    def __init__(self) -> None:
        self.truth = self.said = self.right = 0
        self.overlaps: list[float] = []

    def add(self, truth: list[Piece], said: list[dict]) -> None:
        places = {(one["start"], one["end"]): Box(*one["bbox"]) for one in said}
        overlaps = [overlap(places[piece.start, piece.end], piece.box) for piece in truth
                    if (piece.start, piece.end) in places]  # fmt: skip
        self.truth += len(truth)
        self.said += len(said)
        self.overlaps += [value for value in overlaps if value >= FOUND]

    def result(self) -> dict[str, float]:
        found = len(self.overlaps)
        return {
            "truth": self.truth,
            "found": round(found / self.truth, 4),
            "wrong": round(1 - found / max(1, self.said), 4),
            "iou_mean": round(statistics.mean(self.overlaps or [0.0]), 3),
        }


def misread(one: Paragraph, rng: random.Random) -> str:
    """The text, of which one word in ten has another letter in its middle."""
    letters = list(one.text)
    for piece in one.words:
        if rng.random() < MISREAD and piece.end - piece.start > 2:
            letters[(piece.start + piece.end) // 2] = rng.choice("aeionrst")
    return "".join(letters)


def places(text: str, ground: Ground | None, kind: str) -> list[dict]:
    block = {"block_id": 0, "block_label": "text", "block_content": text, "block_bbox": [0, 0, 0, 0]}
    found = places_of([block], [ground], kind)  # type: ignore[list-item, arg-type]  # a block as an answer has it
    return list(found[0].get(kind, ())) if found else []  # type: ignore[call-overload]  # by its kind


def texts(count: int) -> dict[str, object]:
    tallies: dict[str, Tally] = collections.defaultdict(Tally)
    seconds: dict[str, float] = collections.defaultdict(float)
    rng, pages, true = random.Random(1), 0, 0
    for image, own, paragraphs in documents(count):
        pages += 1
        grey = image.convert("L")
        for one in paragraphs:
            began = time.process_time()
            by_ink = ground_of_lines(lines_in(grey, one.box, 1.0))
            words = places(one.text, by_ink, "words")
            seconds["ink"] += time.process_time() - began
            tallies["words by ink"].add(one.words, words)
            tallies["lines by ink"].add(one.lines, places(one.text, by_ink, "lines"))
            tallies["words by ink, misread"].add(one.words, places(misread(one, rng), by_ink, "words"))
            box = one.box
            (said,) = own.blocks([(box.left, box.top, box.right, box.bottom)])
            if said.true:
                true += 1
                began = time.process_time()
                by_page = ground_of_words(said.lines)
                words = places(one.text, by_page, "words")
                seconds["page"] += time.process_time() - began
                tallies["words by the page's text"].add(one.words, words)
                tallies["words by the page's text, misread"].add(one.words, places(misread(one, rng), by_page, "words"))
    return {
        "pages": pages,
        "paragraphs with a true text layer": true,
        **{name: tally.result() for name, tally in tallies.items()},
        "seconds_a_page": {name: round(value / pages, 3) for name, value in seconds.items()},
    }


def tables(count: int) -> dict[str, object]:
    """Of each style."""
    result: dict[str, object] = {}
    for style, rules in RULES.items():
        rng, cells, found, right, overlaps = random.Random(style), 0, 0, 0, list[float]()
        for _ in range(count):
            rows, columns, size = rng.randint(3, 12), rng.randint(2, 7), rng.randint(18, 30)
            high, left, top, width = round(size * rng.uniform(1.5, 2.3)), 60, 60, rng.randint(150, 210) * columns
            said = [[_cell(rng, row, column) for column in range(columns)] for row in range(rows)]
            face = rng.choice([face for face in FACES if not face.bold])
            bold = next((other for other in FACES if other.bold and other.name == face.name), face)
            page = Page(Image.new("RGB", (width + 120, rows * high + 120), "white"), [])
            set_table(page, said, (face, bold), min(size, 20), left, top, width, rules, (20, 20, 20), row_height=high)
            table = page.blocks[0].bbox
            html = "".join("<tr>" + "".join(f"<td>{text}</td>" for text in row) + "</tr>" for row in said)
            ground = ground_of_table(np.asarray(page.image.convert("L")), table)
            places_ = {(one["row"], one["column"]): Box(*one["bbox"])
                       for one in places(f"<table>{html}</table>", ground, "cells")}  # fmt: skip
            ink = page.image.convert("L").point([255 if level < INK else 0 for level in range(256)])
            edges = [round(left + width * column / columns) for column in range(columns + 1)]
            truths = {
                (row, column): Box(edges[column], top + row * high, edges[column + 1], top + (row + 1) * high)
                for row in range(rows)
                for column in range(columns)
            }
            prints = {
                at: inked(ink, box.left + 3, box.top + 3, box.right - 2, box.bottom - 2) for at, box in truths.items()
            }
            cells += len(truths)
            for at, truth in truths.items():
                box = places_.get(at)
                if box is not None:
                    overlaps.append(overlap(box, truth))
                    found += overlaps[-1] >= FOUND
                    right += all(_holds(box, ink) if at == other else not overlap(box, ink)
                                 for other, ink in prints.items() if ink)  # fmt: skip
        result[style] = {
            "truth": cells,
            "found": round(found / cells, 4),
            "right": round(right / cells, 4),
            "iou_mean": round(statistics.mean(overlaps or [0.0]), 3),
        }
    return result


def _cell(rng: random.Random, row: int, column: int) -> str:
    if row and column:
        return rng.choice([str(rng.randrange(1000)), f"{rng.uniform(0, 999):.2f}", f"{rng.randrange(100)}%"])
    return rng.choice(("Item", "Pages", "Price", "Well", "North", "Total", "March", "Depth", "Colour", "Grey"))


def _holds(box: Box, inside: Box) -> bool:
    return (box.left - 1 <= inside.left and box.top - 1 <= inside.top
            and box.right + 1 >= inside.right and box.bottom + 1 >= inside.bottom)  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description="Where the places of words, lines and cells are found.")
    parser.add_argument("--documents", type=int, default=8, help="of about two pages each")
    parser.add_argument("--tables", type=int, default=20, help="of each style")
    options = parser.parse_args()
    print(json.dumps({"texts": texts(options.documents), "cells": tables(options.tables)}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
