# SPDX-License-Identifier: Apache-2.0
"""The blocks of a page with their places, for the outputs that need more than the Markdown."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

from docparser.convert.characters import writable
from docparser.convert.mathematics import Formulas

# What a block's text may hold besides its words: marks of headings, emphasis, elements of HTML.
MARKS = re.compile(r"^#{1,6}\s+|\*\*|</?[A-Za-z][^<>]{0,80}>", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Box:
    """Left, top, right and bottom in pixels of the page as it was parsed."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def width(self) -> float:
        return self.right - self.left

    @property
    def height(self) -> float:
        return self.bottom - self.top


@dataclasses.dataclass(frozen=True)
class Block:
    """``boxes``: PaddleX may join blocks before it asks the VLM, whose text is then that of several boxes in order.
    ``doubtful``: as the answer says."""

    label: str
    boxes: tuple[Box, ...]
    content: str
    doubtful: bool = False

    @property
    def plain(self) -> str:
        """The words, formulas as LaTeX without their signs."""
        formulas = Formulas()
        return formulas.put_back_latex(MARKS.sub("", formulas.take_out(self.content))).strip()


def blocks_of(pruned: dict[str, Any]) -> Iterator[Block]:
    """The blocks with text of a ``prunedResult``, in reading order; with headers, footers and page numbers."""
    listed = pruned.get("parsing_res_list") or []
    boxes: dict[Any, list[Box]] = {}
    for number, block in enumerate(listed):
        boxes.setdefault(block.get("group_id", number), []).append(Box(*map(float, block["block_bbox"])))
    for number, block in enumerate(listed):
        content = writable(block.get("block_content") or "").strip()
        if content:
            group = block.get("group_id", number)
            own = Box(*map(float, block["block_bbox"]))
            doubtful = block.get("doubtful") is True
            yield Block(block["block_label"], tuple(boxes.pop(group, [own])), content, doubtful)
