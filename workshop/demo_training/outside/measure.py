# SPDX-License-Identifier: Apache-2.0
"""Measure the demo on pages that others made, through a running parser.

    python -m demo_training.outside.measure --source manuals|tex|chromium|office --split choose|judge
        [--url http://127.0.0.1:8080] [--pages 12] [--cache DIR]

Prints JSON: words lost, invented or changed as a share of the words of the PDF's text layer; the same by characters, as
``evaluate`` counts them, of these words with a blank between two; and seconds a page. Needs
the environment `parser`, Debian's `apt-get download` for the packages in ``manuals.yaml``, and the typesetters.
"""

from __future__ import annotations

import argparse
import io
import json
import statistics
import time
from pathlib import Path
from typing import Any

from ..evaluate import parse
from ..pages.labels import MARGINAL
from ..scores import edit_distance
from .pages import SOURCES, pages
from .words import words, wrong


def said(parsed: dict, body: tuple[float, float]) -> list[str]:
    """The words of a page's ``prunedResult`` that its Markdown has, inside ``body``, shares of the page's height."""
    top, bottom = (share * parsed["height"] for share in body)
    blocks = [
        block["block_content"]
        for block in parsed["parsing_res_list"]
        if block["block_label"] not in MARGINAL and top <= sum(block["block_bbox"][1::2]) / 2 <= bottom
    ]
    return words("\n".join(blocks))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", choices=SOURCES, required=True)
    parser.add_argument("--split", choices=("choose", "judge"), required=True)
    parser.add_argument("--url", default="http://127.0.0.1:8080", help="the parser")
    parser.add_argument("--pages", type=int, default=12, help="that are set here (default %(default)s)")
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "demo-training")
    parser.add_argument("--show", action="store_true", help="print what was read of each page, too")
    arguments = parser.parse_args()
    found: list[dict[str, Any]] = []
    for page in pages(arguments.source, arguments.split, arguments.cache, arguments.pages):
        coded = io.BytesIO()
        page.picture.save(coded, "PNG")
        began = time.perf_counter()
        (parsed,) = parse(arguments.url, coded.getvalue(), 1)
        read = said(parsed, page.body)
        found.append(
            {
                "page": page.name,
                "words": len(page.truth),
                "wrong": wrong(page.truth, read),
                "characters": len(" ".join(page.truth)),
                "wrong_characters": edit_distance(" ".join(read), " ".join(page.truth)),
                "seconds": round(time.perf_counter() - began, 1),
            }
        )
        if arguments.show:
            print(json.dumps(found[-1]), " ".join(read), sep="\n", flush=True)
    total = sum(page["words"] for page in found)
    summary = {
        "pages": len(found),
        "words": total,
        "wrong": round(sum(page["wrong"] for page in found) / total, 4),
        "wrong_characters": round(
            sum(page["wrong_characters"] for page in found) / sum(page["characters"] for page in found), 4
        ),
        "median_page": round(statistics.median(page["wrong"] / page["words"] for page in found), 4),
        "seconds_per_page": round(statistics.fmean(page["seconds"] for page in found), 1),
        "each": found,
    }
    print(json.dumps(summary, indent=1))


if __name__ == "__main__":
    main()
