# SPDX-License-Identifier: Apache-2.0
"""Blocks of a parsed page as the outputs need them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

# Left out of the Markdown by default (markdown_ignore_labels in config/pipelines), so here as well.
DECORATION = frozenset({"number", "footnote", "header", "header_image", "footer", "footer_image", "aside_text"})
# XML 1.0 allows no other control characters; Office files are XML.
CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True)
class Block:
    """`picture` is the file of a block that was cut out as an image, counted from the document's folder."""

    label: str
    content: str
    picture: str | None


def blocks(record: dict[str, Any]) -> Iterator[Block]:
    """The blocks of a page's record in reading order, without headers, footers and the like."""
    pictures = record["markdown"]["images"]
    for block in record["prunedResult"].get("parsing_res_list") or []:
        if block["block_label"] in DECORATION:
            continue
        # PaddleX names a picture by its box: imgs/img_in_<label>_box_<x1>_<y1>_<x2>_<y2>.jpg
        box = "_box_" + "_".join(str(int(value)) for value in block["block_bbox"])
        picture = next((target for source, target in pictures.items() if box in source), None)
        yield Block(block["block_label"], block.get("block_content") or "", picture)


def plain(text: str) -> str:
    """Text without what XML cannot hold."""
    return CONTROL.sub("", text)
