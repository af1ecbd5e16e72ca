# SPDX-License-Identifier: Apache-2.0
"""The outline of pages that were joined. PaddleX's Markdown keeps PaddleX's levels (docs/decisions/0238)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from docparser.outline import TITLES, Title, levels, side


def outlines(results: Iterable[Any]) -> list[dict[int, int]]:
    """Of each of PaddleX's results, all of one document in order: the levels of its headings by their places among its
    blocks. ``relevel_titles`` has told the blocks which page they stand on."""
    titles: list[Title] = []
    places: list[tuple[int, int]] = []
    found: list[dict[int, int]] = []
    for page, result in enumerate(results):
        found.append({})
        for place, block in enumerate(result["parsing_res_list"]):
            if block.label in TITLES and (block.content or "").strip():
                size = side(result.get("width")), side(result.get("height"))
                titles.append(Title.of(block.label, block.content, block.bbox, block.page_index, size))
                places.append((page, place))
    for (page, place), level in zip(places, levels(titles), strict=True):
        found[page][place] = level
    return found
