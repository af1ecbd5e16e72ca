# SPDX-License-Identifier: Apache-2.0
"""Pages as the service answers for them, of blocks (label, content, box) in pixels of the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Block = dict[str, Any]


def block_of(label: str, content: str, box: Sequence[float], **members: Any) -> Block:
    """A block at left, top, right, bottom, with further ``members``."""
    return {"block_label": label, "block_content": content, "block_bbox": list(box), **members}


def pruned_of(blocks: list[Block], width: float = 100, height: float = 140) -> dict[str, Any]:
    """The `prunedResult` of a page of this size."""
    return {"width": width, "height": height, "parsing_res_list": blocks}


def entry_of(blocks: list[Block], text: str | None = None, **size: float) -> dict[str, Any]:
    """The page with its Markdown: ``text``, or what the blocks hold, one below the other."""
    said = "\n\n".join(block["block_content"] for block in blocks) if text is None else text
    return {"prunedResult": pruned_of(blocks, **size), "markdown": {"text": said, "images": {}}}
