#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure the judge of a page's own text on born-digital PDFs: true blocks that it refuses, false ones that it takes.

    PYTHONPATH=parser .venvs/parser/bin/python workshop/benchmarks/bench_own_text.py FILE.pdf... [--pages 6] [--seed 1]

Each file is taken for true, and some of its pages are judged as they are. Then the same pages lie, in blocks that
stay where they are: what letters and digits are said to be is changed font by font, as a changed ToUnicode map would
have it. ``shuffled``: all of a font; ``shifted``: each is said to be the next one; ``two letters``, ``two digits``: a
pair of a font, exchanged; ``one letter``: one that is said to be another. Blocks are pieces of text that stand
together, for there is no layout model here. Prints JSON, with milliseconds of the processor for a page.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pypdfium2

from docparser.own_text.characters import Characters
from docparser.own_text.page_text import OwnText
from docparser.own_text.pdfium_text import characters_of

SCALE = 2.0  # pixels a point: PARSER_PDF_SCALE
LIES = ("shuffled", "shifted", "two letters", "two digits", "one letter")


def changed(codes: np.ndarray, how: str, chance: np.random.Generator) -> np.ndarray:
    """What the letters and digits ``codes`` of a font are said to be, by the lie ``how``; ``codes`` where it cannot."""
    said = codes.copy()
    if how == "shuffled":
        return chance.permutation(codes)
    if how == "shifted":
        return np.roll(codes, 1)
    among = np.flatnonzero([chr(code).isdigit() == (how == "two digits") for code in codes.tolist()])
    if len(among) >= 2:
        one, other = chance.choice(among, 2, replace=False)
        said[one] = codes[other]
        if how != "one letter":
            said[other] = codes[one]
    return said


def lying(characters: Characters, how: str, chance: np.random.Generator) -> tuple[Characters, np.ndarray]:
    """The characters, and which of them are lies now."""
    each, fonts = characters.each.copy(), characters.styles["font"][characters.each["style"]]
    for font in np.unique(fonts):
        mine = np.flatnonzero(fonts == font)
        kinds = np.array([code for code in np.unique(each["code"][mine]).tolist() if chr(code).isalnum()], np.uint32)
        if len(kinds) < 2:
            continue
        said = dict(zip(kinds.tolist(), changed(kinds, how, chance).tolist(), strict=True))
        each["code"][mine] = [said.get(code, code) for code in each["code"][mine].tolist()]
    return dataclasses.replace(characters, each=each), each["code"] != characters.each["code"]


def pages_of(path: Path, most: int) -> Iterator[tuple[Characters, np.ndarray, dict[str, float]]]:
    """Some pages with text, evenly over the file: characters, pixels, and milliseconds of rendering and reading."""
    document = pypdfium2.PdfDocument(path)
    try:
        for index in np.unique(np.linspace(0, len(document) - 1, most + 2)[1:-1].astype(int)).tolist():
            times = [time.process_time()]
            page = document[index]
            bitmap = page.render(scale=SCALE, prefer_bgrx=False, maybe_alpha=False).to_numpy()
            times.append(time.process_time())
            characters = characters_of(page, bitmap.shape[1], bitmap.shape[0])
            times.append(time.process_time())
            pixels = np.repeat(bitmap.reshape(*bitmap.shape[:2], -1), 3 if bitmap.ndim == 2 else 1, axis=2)[:, :, :3]
            if len(characters):
                render, read = (1000 * spent for spent in np.diff(times).tolist())
                yield characters, np.array(pixels, order="C"), {"render": render, "read": read}
    finally:
        document.close()


def measure(path: Path, most: int, chance: np.random.Generator) -> dict[str, collections.Counter]:
    """Counts by kind: ``true`` (blocks, characters, refused ones, by their reasons), each lie, and milliseconds."""
    found: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
    for characters, pixels, spent in pages_of(path, most):
        began = time.process_time()
        page = OwnText(characters, pixels)
        blocks = page.outside([])
        found["milliseconds"].update({**spent, "judge": 1000 * (time.process_time() - began), "pages": 1})
        for block in blocks:
            size = sum(len(line.text) for line in block.lines)
            found["true"].update({"blocks": 1, "characters": size})
            if not block.true:
                found["true"].update({"blocks refused": 1, "characters refused": size, str(block.doubts[0]): size})
        for how in LIES:
            false, which = lying(characters, how, chance)
            middles = (false.each["box"][:, :2] + false.each["box"][:, 2:]) / 2
            for block in OwnText(false, pixels).blocks(block.box for block in blocks):
                inside = ((middles > block.box[:2]) & (middles < block.box[2:])).all(1)
                if which[inside].any():
                    found[how].update({"blocks": 1, "blocks taken": int(block.true)})
    return found


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE.pdf")
    parser.add_argument("--pages", type=int, default=6, help="of each file, at most")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(words)
    chance, total = (
        np.random.default_rng(options.seed),
        collections.defaultdict[str, collections.Counter](collections.Counter),
    )
    for path in options.files:
        found = measure(path, options.pages, chance)
        for kind, counts in found.items():
            total[kind].update(counts)
        true = found["true"]
        print(f"{path.name}: {true['characters refused']} of {true['characters']} characters refused", file=sys.stderr)
    pages = max(1, total["milliseconds"].pop("pages", 0))
    report = {kind: dict(counts) for kind, counts in total.items()}
    report["milliseconds"] = {stage: round(spent / pages, 1) for stage, spent in total["milliseconds"].items()}
    print(json.dumps({"pages": pages, **report}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
