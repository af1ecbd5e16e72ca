# SPDX-License-Identifier: Apache-2.0
"""Measure an exported layout model on held-out pages, through PaddleX's own pre- and post-processing.

``python -m demo_training.layout.measure MODEL_DIR [--pages 100]`` in the parser environment. Prints JSON: block F1 at
IoU 0.5 (label must agree), share of pages in right order, and the margins between ink and box, which the crops have.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from ..pages.documents import draw_page
from ..pages.page import Page
from ..pages.scanned import scan_page
from ..pages.shelf import shelf_page, shelf_pages
from ..scores import f1, match_blocks, order_right

# Label and box of a block, in px: left, top, right, bottom.
Found = tuple[str, list[float]]


def configured() -> dict[str, Any]:
    """What PaddleX's PaddleOCR-VL pipeline sets of the model."""
    os.environ.setdefault("PADDLE_PDX_DISABLE_MODEL_SOURCE_CHECK", "True")
    import paddlex

    pipeline = Path(paddlex.__file__).parent / "configs" / "pipelines" / "PaddleOCR-VL.yaml"
    settings = yaml.safe_load(pipeline.read_text(encoding="utf-8"))["SubModules"]["LayoutDetection"]
    return {
        name: settings[name] for name in ("threshold", "layout_nms", "layout_unclip_ratio", "layout_merge_bboxes_mode")
    }


def load(model_dir: Path) -> Any:
    """The model as PaddleX's PaddleOCR-VL pipeline configures it."""
    settings = configured()
    import paddlex

    return paddlex.create_model(model_name="PP-DocLayoutV2", model_dir=str(model_dir), device="cpu", **settings)


def pixels(page: Page) -> np.ndarray:
    """As PaddleX takes a page: [height, width, 3] in the order BGR."""
    return np.ascontiguousarray(np.asarray(page.image)[:, :, ::-1])


def blocks_of(boxes: list[dict[str, Any]]) -> list[Found]:
    return [(box["label"], box["coordinate"]) for box in boxes]


def detect(model: Any, page: Page) -> list[Found]:
    """The blocks of a page in the order found."""
    (result,) = model.predict([pixels(page)])
    return blocks_of(result["boxes"])


def measure(pages: Sequence[Page], found_on: Sequence[list[Found]]) -> dict:
    """How what was found on each page agrees with what was drawn there."""
    found_count = truth_count = matched_count = ordered = 0
    by_label: dict[str, Counter[str]] = {"found": Counter(), "truth": Counter(), "matched": Counter()}
    margins = []
    missed: list[str] = []
    for number, (page, found) in enumerate(zip(pages, found_on, strict=True)):
        truth = [(block.label, block.bbox) for block in page.blocks]
        pairs = match_blocks(found, truth)
        found_count, truth_count, matched_count = (
            found_count + len(found),
            truth_count + len(truth),
            matched_count + len(pairs),
        )
        by_label["found"].update(label for label, _ in found)
        by_label["truth"].update(label for label, _ in truth)
        by_label["matched"].update(truth[j][0] for _, j in pairs)
        right = order_right(pairs, [label for label, _ in truth])
        ordered += right
        if not right:
            missed.append(f"{number}: order")
        if len(pairs) < max(len(truth), len(found)):
            missed.append(f"{number}: {len(pairs)} of {len(truth)}, found {len(found)}")
        for i, j in pairs:
            if truth[j][0] not in ("image", "chart", "table"):
                box, ink = np.array(found[i][1], float), np.array(truth[j][1], float)
                margins.append((box - ink) * [-1, -1, 1, 1])
    sides = np.array(margins).reshape(-1, 4)
    return {
        "pages": len(pages),
        "block_f1": round(f1(matched_count, found_count, truth_count), 4),
        "blocks": {"matched": matched_count, "found": found_count, "true": truth_count},
        "pages_in_right_order": round(ordered / len(pages), 4),
        "f1_by_label": {
            label: round(f1(by_label["matched"][label], by_label["found"][label], by_label["truth"][label]), 3)
            for label in sorted(set(by_label["found"]) | set(by_label["truth"]))
        },
        "margin_px": {
            side: {
                "mean": round(float(values.mean()), 2),
                "std": round(float(values.std()), 2),
                "percentiles_1_5_50_95_99": [round(float(p), 1) for p in np.percentile(values, [1, 5, 50, 95, 99])],
                "cut": round(float((values < 0).mean()), 4),
            }
            for side, values in zip(("left", "top", "right", "bottom"), sides.T)
        },
        "imperfect": missed,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model_dir", type=Path)
    parser.add_argument("--pages", type=int, default=100)
    parser.add_argument("--first-seed", type=int, default=1_000_000)
    parser.add_argument("--core", action="store_true", help="only the faces and sizes that the demo VLM is measured on")
    parser.add_argument("--shelf", type=Path, help="typeset pages instead (typesetters.make --split heldout)")
    parser.add_argument("--scanned", action="store_true", help="the pages as a scanner hands them over")
    arguments = parser.parse_args()
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.pages)
    if arguments.shelf:
        pages = [shelf_page(name) for name in shelf_pages(arguments.shelf)[: arguments.pages]]
    else:
        pages = [draw_page(seed, "heldout", core=arguments.core) for seed in seeds]
    if arguments.scanned:
        pages = [scan_page(page, seed) for page, seed in zip(pages, seeds)]
    model, began = load(arguments.model_dir), time.perf_counter()
    found = [detect(model, page) for page in pages]
    seconds = (time.perf_counter() - began) / len(pages)
    print(json.dumps({"seconds_per_page": round(seconds, 3), **measure(pages, found)}, indent=1))


if __name__ == "__main__":
    main()
