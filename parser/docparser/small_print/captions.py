# SPDX-License-Identifier: Apache-2.0
"""Captions that the demo's layout model calls texts. PaddleX would join such a one to the paragraph that ends the
column before it, because a paragraph may go on there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

ABOVE = ("image", "chart")
NEAR = 0.04  # of the page's height: between a figure and its caption
TALLEST = 0.045  # of the page's height: a caption has two lines at most
BESIDE = 0.5  # of the narrower one's width, that both share


def with_captions(boxes: list[dict[str, Any]], height: int) -> list[dict[str, Any]]:
    """The boxes of a page ``height`` pixels high. A low text that stands right below a figure is its title."""
    figures = [box["coordinate"] for box in boxes if box["label"] in ABOVE]
    return [
        box | {"label": "figure_title"}
        if box["label"] == "text" and any(_is_caption(box["coordinate"], figure, height) for figure in figures)
        else box
        for box in boxes
    ]


def _is_caption(text: Sequence[float], figure: Sequence[float], height: int) -> bool:
    shared = min(text[2], figure[2]) - max(text[0], figure[0])
    narrower = min(text[2] - text[0], figure[2] - figure[0])
    return (
        text[3] - text[1] <= TALLEST * height
        and -NEAR / 2 * height <= text[1] - figure[3] <= NEAR * height
        and shared >= BESIDE * narrower
    )
