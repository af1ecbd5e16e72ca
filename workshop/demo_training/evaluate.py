# SPDX-License-Identifier: Apache-2.0
"""Measure the demo weights end to end: held-out pages through a running parser.

    python -m demo_training.evaluate [--url http://127.0.0.1:8080] [--pages 20]
        [--wide | --plain | --browser | --tables N [--alone] | --data tests/data] [--scanned]

Needs Pillow and NumPy, the fonts and the word list of the training pages, and Chromium for ``--browser``. Prints JSON:
block F1 (IoU 0.5, label must agree), pages in right order, and the page error. That is the edit distance between the
page's running text as parsed and as drawn, over the length of the latter. It counts reading order and missing or
doubled blocks; it leaves out tables, pictures, headers, footers, page numbers and footnotes, and differences of white
space. With ``--tables`` it prints the tables' TEDS (``teds.py``) instead: what the layout model finds of each, or with
``--alone`` the table in a picture of its own, which no layout model sees.
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from .pages.browser import draw_browser_page
from .pages.documents import draw_page
from .pages.page import Page
from .pages.plain import draw_plain_page
from .pages.scanned import scan, scan_page
from .pages.simple_tables import draw_table_page, look_of
from .scores import edit_distance, f1, match_blocks, order_right, page_text
from .teds import markup_of, teds

ROOM = 8  # px around a table that is parsed alone


def parse(url: str, document: bytes, file_type: int, timeout: float = 600.0, options: dict | None = None) -> list[dict]:
    """POST a PDF (``file_type`` 0) or an image (1) to ``url``/layout-parsing; the pages' ``prunedResult``.

    ``options`` are further members of the request. Raises RuntimeError with the service's message where it refuses.
    """
    members = {
        "file": base64.b64encode(document).decode(),
        "fileType": file_type,
        "visualize": False,
        **(options or {}),
    }
    request = urllib.request.Request(
        f"{url}/layout-parsing", json.dumps(members).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=timeout) as response:
            answer = json.load(response)
    except urllib.error.HTTPError as error:
        raise RuntimeError(f"{url} answered {error.code}: {error.read().decode(errors='replace')[:400]}") from error
    return [page["prunedResult"] for page in answer["result"]["layoutParsingResults"]]


class Tally:
    """Sums the scores of pages."""

    def __init__(self) -> None:
        self.found = self.truth = self.matched = self.ordered = self.wrong = self.length = 0
        self.pages: list[dict] = []

    def add(self, name: str, parsed: dict, truth: dict, seconds: float) -> None:
        """``parsed`` is a prunedResult, ``truth`` a Page.truth()."""
        blocks = parsed["parsing_res_list"]
        # A page that was rendered from a PDF has its own scale.
        scale = truth["width"] / parsed["width"] if parsed.get("width") else 1.0
        found = [(block["block_label"], [scale * value for value in block["block_bbox"]]) for block in blocks]
        real = [(block["label"], block["bbox"]) for block in truth["blocks"]]
        pairs = match_blocks(found, real)
        right = order_right(pairs, [label for label, _ in real])
        read = page_text([(block["block_label"], block["block_content"]) for block in blocks])
        drawn = page_text([(block["label"], block["text"]) for block in truth["blocks"]])
        wrong = edit_distance(read, drawn)
        self.found, self.truth, self.matched = (
            self.found + len(found),
            self.truth + len(real),
            self.matched + len(pairs),
        )
        self.ordered += right
        self.wrong, self.length = self.wrong + wrong, self.length + len(drawn)
        self.pages.append(
            {
                "page": name,
                "blocks": f"{len(pairs)} matched, {len(real)} drawn, {len(found)} found",
                "order": right,
                "error": round(wrong / max(len(drawn), 1), 4),
                "characters": len(drawn),
                "seconds": round(seconds, 2),
            }
        )

    def summary(self) -> dict:
        return {
            "pages": len(self.pages),
            "block_f1": round(f1(self.matched, self.found, self.truth), 4),
            "pages_in_right_order": round(self.ordered / max(len(self.pages), 1), 4),
            "page_error": round(self.wrong / max(self.length, 1), 4),
            "characters": self.length,
            "seconds_per_page": round(sum(page["seconds"] for page in self.pages) / max(len(self.pages), 1), 2),
            "each": self.pages,
        }


def evaluate_drawn(url: str, tally: Tally, seeds: range, draw: Callable[[int], Page], scanned: bool = False) -> None:
    for seed in seeds:
        page = scan_page(draw(seed), seed) if scanned else draw(seed)
        buffer = io.BytesIO()
        page.image.save(buffer, "PNG")
        began = time.perf_counter()
        (parsed,) = parse(url, buffer.getvalue(), 1)
        tally.add(str(seed), parsed, page.truth(), time.perf_counter() - began)


def evaluate_folder(url: str, tally: Tally, folder: Path) -> None:
    """Every PNG or PDF in ``folder`` that has its truth beside it as .json."""
    for path in sorted(folder.iterdir()):
        if path.suffix not in (".png", ".pdf") or not path.with_suffix(".json").exists():
            continue
        truth = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        began = time.perf_counter()
        parsed = parse(url, path.read_bytes(), 0 if path.suffix == ".pdf" else 1)
        seconds = (time.perf_counter() - began) / len(parsed)
        for number, (page, real) in enumerate(zip(parsed, truth.get("pages", [truth]), strict=True), start=1):
            tally.add(f"{path.name} {number}", page, real, seconds)


def evaluate_tables(url: str, seeds: range, scanned: bool = False, alone: bool = False) -> dict:
    """The TEDS of the table of each page, and means by its look; 0 where no table was found.

    ``alone``: the table's picture is parsed by itself, without a layout model.
    """
    options = {"useLayoutDetection": False, "promptLabel": "table"} if alone else {}
    scores: list[float] = []
    by_look: dict[str, list[float]] = {}
    each: list[dict] = []
    for seed in seeds:
        page = draw_table_page(seed, "heldout")
        drawn, look = page.blocks[1], look_of(seed)
        image, (left, top, right, bottom) = scan(page.image, seed) if scanned else page.image, drawn.bbox
        if alone:
            image = image.crop((left - ROOM, top - ROOM, right + ROOM, bottom + ROOM))
        buffer = io.BytesIO()
        image.save(buffer, "PNG")
        began = time.perf_counter()
        (parsed,) = parse(url, buffer.getvalue(), 1, options=options)
        seconds = time.perf_counter() - began
        # Without a layout model the block of the whole picture has no label of a table.
        found = [
            block["block_content"] for block in parsed["parsing_res_list"] if alone or block["block_label"] == "table"
        ]
        score = max((teds(table, markup_of(drawn.cells)) for table in found), default=0.0)
        scores.append(score)
        for name in look:
            by_look.setdefault(name, []).append(score)
        cells = sum(map(len, drawn.cells))
        each.append({"page": seed, "look": look, "cells": cells, "teds": round(score, 4), "seconds": round(seconds, 2)})
    return {
        "pages": len(each),
        "teds": _mean(scores),
        "by_look": {name: _mean(of) for name, of in sorted(by_look.items())},
        "without_any_error": sum(score == 1.0 for score in scores),
        "found": sum(score > 0.0 for score in scores),
        "cells": sum(page["cells"] for page in each),
        "seconds_per_page": round(sum(page["seconds"] for page in each) / max(len(each), 1), 2),
        "each": each,
    }


def _mean(scores: list[float]) -> float:
    return round(sum(scores) / max(len(scores), 1), 4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8080", help="the parser")
    parser.add_argument("--pages", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=5_000_000)
    parser.add_argument("--columns", type=int, choices=(1, 2))
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--wide", action="store_true", help="all faces and sizes, not only the core range")
    kind.add_argument(
        "--plain", action="store_true", help="1240-px pages of 24 to 48 px print, unlike those of training"
    )
    kind.add_argument("--browser", action="store_true", help="licence texts of Debian, typeset by Chromium")
    kind.add_argument("--tables", type=int, metavar="N", help="N pages with a simple table each")
    parser.add_argument("--alone", action="store_true", help="tables in pictures of their own, without a layout model")
    kind.add_argument("--data", type=Path, help="measure the documents of this folder instead of drawn pages")
    parser.add_argument("--scanned", action="store_true", help="drawn pages as a scanner hands them over")
    arguments = parser.parse_args()
    if arguments.tables:
        seeds = range(arguments.first_seed, arguments.first_seed + arguments.tables)
        print(json.dumps(evaluate_tables(arguments.url, seeds, arguments.scanned, arguments.alone), indent=1))
        return
    tally = Tally()
    if arguments.data:
        evaluate_folder(arguments.url, tally, arguments.data)
    else:
        seeds = range(arguments.first_seed, arguments.first_seed + arguments.pages)

        def draw(seed: int) -> Page:
            if arguments.plain:
                return draw_plain_page(seed, "heldout")
            if arguments.browser:
                return draw_browser_page(seed)
            return draw_page(seed, "heldout", columns=arguments.columns, core=not arguments.wide)

        evaluate_drawn(arguments.url, tally, seeds, draw, arguments.scanned)
    print(json.dumps(tally.summary(), indent=1))


if __name__ == "__main__":
    main()
