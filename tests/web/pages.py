# SPDX-License-Identifier: Apache-2.0
"""What the simulated VLM reads on each page, and how long a browser may take."""

from __future__ import annotations

import json
from typing import Any

from tests.support.entries import block_of

WAIT_MS = 120_000  # busy machines draw slowly
# What the page does after some time it does after a hundredth of it.
HURRY = "{ const later = setTimeout; window.setTimeout = (act, ms, ...given) => later(act, ms / 100, ...given); } 0"

# What the simulated VLM reads on each page: (label, box, content) in a page of 100 x 140.
BLOCKS = [
    ("doc_title", [10, 8, 90, 20], "Wells of the Lower Valley"),
    ("text", [10, 24, 90, 50], "The mean is $ \\bar{c} = \\frac{1}{n}\\sum c_i $ and the fee $5 or $10."),
    (
        "table",
        [10, 54, 90, 90],
        "<table><tr><td>Well</td><td>March</td></tr><tr><td>Mill</td><td>0.048</td></tr></table>",
    ),
    ("image", [10, 94, 50, 130], ""),
]
PICTURE = "imgs/img_in_image_box_10_94_50_130.jpg"
TEXT = (
    "# Wells of the Lower Valley\n\n{}\n\n{}\n\n"
    f'<div style="text-align: center;"><img src="{PICTURE}" alt="Well"></div>'
)


def page_of(
    text: str | None = None,
    outlines: dict[int, list] | None = None,
    doubtful: dict[int, float | None] | None = None,
    told: dict[int, dict[str, Any]] | None = None,
    beside: dict[str, Any] | None = None,
    **pruned: Any,
) -> str:
    """``text``: what a VLM that writes Markdown reads, all of it in the second block; then the picture is not named as
    that of a block. ``outlines``: polygons of blocks by their index; ``doubtful``: confidences of those that are, by
    their index; ``told``: further members of blocks; ``beside``: of the page's entry. ``pruned``: further keys of its
    prunedResult."""
    blocks: list[dict[str, Any]] = [
        block_of(label, content, box, block_polygon_points=outline)
        for (label, box, content), outline in zip(BLOCKS, map((outlines or {}).get, range(len(BLOCKS))), strict=True)
    ]
    said: dict[str, Any] = {"text": TEXT.format(BLOCKS[1][2], BLOCKS[2][2]), "picture": PICTURE}
    if text is not None:
        for index, block in enumerate(blocks):
            block["block_content"] = text if index == 1 else ""
        said = {"text": text}
        pruned = {"model_settings": {"prompt_label": "document"}, **pruned}
    for index, confidence in (doubtful or {}).items():
        blocks[index] |= {"confidence": confidence, "doubtful": True}
    for index, members in (told or {}).items():
        blocks[index] |= members
    return json.dumps({**said, "blocks": blocks, "pruned": pruned, "beside": beside or {}})
