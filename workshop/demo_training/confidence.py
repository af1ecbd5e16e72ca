# SPDX-License-Identifier: Apache-2.0
"""Whether blocks' confidence tells right from wrong, on pages outside the demo's range.

    python -m demo_training.confidence [--url http://127.0.0.1:8080] [--pages 14]
    python -m demo_training.confidence --vlm-url http://127.0.0.1:8000/v1 [--pages 14] [--wide]

The first sends pages through a running parser; the second cuts the drawn blocks out itself and asks the VLM, so that
no fault of the layout model counts. Pages are those of `pages/strange.py`, with ``--wide`` those of `evaluate.py`. A
block that was found (IoU 0.5, same label) is right if its text is the drawn one up to 2 % of its characters: one wrong
letter in a line of fifty, none in a shorter one. White space does not count. A text that was cut because it repeats
itself has no confidence and is always marked, so it counts as 0. Blocks that PaddleX has joined are left out: their
text is that of several.

Prints JSON: the area under the ROC curve, which is the share of pairs of a right and a wrong block in which the right
one has the higher confidence (a tie counts half), and what thresholds would mark. Needs what evaluate.py needs,
without Chromium.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .evaluate import parse
from .pages.documents import draw_page
from .pages.page import Page
from .pages.strange import draw_strange_page
from .scores import WITHOUT_TEXT, area_under_curve, edit_distance, match_blocks, plain

TOLERANCE = 0.02  # of the drawn characters
MARGIN = 3  # px
THRESHOLDS = (0.8, 0.85, 0.9, 0.95, 0.98)


@dataclass(frozen=True)
class Judged:
    """A block that was found: how sure the VLM was of it, and whether its text is the drawn one."""

    confidence: float
    right: bool


def is_right(read: str, drawn: str) -> bool:
    read, drawn = plain(read), plain(drawn)
    return edit_distance(read, drawn) <= TOLERANCE * len(drawn)


def judged(parsed: dict[str, Any], truth: dict[str, Any]) -> Iterator[Judged]:
    """``parsed`` is a prunedResult, ``truth`` a Page.truth(). Raises ValueError where a block says no confidence."""
    blocks = parsed["parsing_res_list"]
    found = [(block["block_label"], block["block_bbox"]) for block in blocks]
    real = [(block["label"], block["bbox"]) for block in truth["blocks"]]
    groups = Counter(block.get("group_id", i) for i, block in enumerate(blocks))
    for i, j in match_blocks(found, real):
        if real[j][0] in WITHOUT_TEXT or groups[blocks[i].get("group_id", i)] > 1:
            continue
        confidence = blocks[i].get("confidence")
        if confidence is None and blocks[i].get("doubtful"):
            confidence = 0.0
        if confidence is None:
            raise ValueError(f"block {i} has no confidence; expected a parser with PARSER_CONFIDENCE=1, and a VLM")
        yield Judged(confidence, is_right(blocks[i]["block_content"], truth["blocks"][j]["text"]))


def read_blocks(url: str, model: str, page: Page) -> Iterator[Judged]:
    """The page's blocks, cut out where they were drawn, with MARGIN px around, and read by the VLM at ``url``."""
    from .vlm.measure import ask  # needs what the VLM was trained with, and a parser's pages do not

    for block in page.blocks:
        if block.label in WITHOUT_TEXT:
            continue
        left, top, right, bottom = block.bbox
        crop = page.image.crop((max(0, left - MARGIN), max(0, top - MARGIN), right + MARGIN, bottom + MARGIN))
        coded = io.BytesIO()
        crop.save(coded, "JPEG")
        choice = ask(url, model, coded.getvalue(), timeout=3600, logprobs=True, top_logprobs=0)
        logs = [entry["logprob"] for entry in choice["logprobs"]["content"]]
        yield Judged(math.exp(sum(logs) / len(logs)), is_right(choice["message"]["content"], block.text))


def summary(blocks: Sequence[Judged]) -> dict[str, Any]:
    right = [block.confidence for block in blocks if block.right]
    wrong = [block.confidence for block in blocks if not block.right]
    return {
        "blocks": {"right": len(right), "wrong": len(wrong)},
        "area_under_curve": round(area_under_curve(right, wrong), 4),
        "marked_below": {
            str(threshold): {
                "wrong_marked": round(sum(one < threshold for one in wrong) / max(len(wrong), 1), 3),
                "right_marked": round(sum(one < threshold for one in right) / max(len(right), 1), 3),
            }
            for threshold in THRESHOLDS
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8080", help="the parser")
    parser.add_argument("--vlm-url", help="a VLM server's API root, which reads the blocks without a parser")
    parser.add_argument("--model", default="PaddleOCR-VL-0.9B", help="its name there")
    parser.add_argument("--pages", type=int, default=14)
    parser.add_argument("--first-seed", type=int, default=9000)
    parser.add_argument("--wide", action="store_true", help="pages of all faces and sizes, with long paragraphs")
    arguments = parser.parse_args()
    blocks: list[Judged] = []
    for seed in range(arguments.first_seed, arguments.first_seed + arguments.pages):
        page = draw_page(7_000_000 + seed, "heldout") if arguments.wide else draw_strange_page(seed, "heldout")
        if arguments.vlm_url:
            blocks += read_blocks(arguments.vlm_url, arguments.model, page)
        else:
            buffer = io.BytesIO()
            page.image.save(buffer, "PNG")
            (parsed,) = parse(arguments.url, buffer.getvalue(), 1, timeout=3600)
            blocks += judged(parsed, page.truth())
        print(f"seed {seed}: {len(blocks)} blocks so far", file=sys.stderr, flush=True)
    print(json.dumps(summary(blocks), indent=1))


if __name__ == "__main__":
    main()
