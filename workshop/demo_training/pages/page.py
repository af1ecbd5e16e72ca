# SPDX-License-Identifier: Apache-2.0
"""A page with its ground truth."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image, ImageChops

from .labels import LABELS

Box = tuple[int, int, int, int]


@dataclass
class Block:
    """One block. ``bbox`` bounds its ink as (left, top, right, bottom) in px, right and bottom exclusive."""

    label: str
    bbox: Box
    lines: list[str] = field(default_factory=list)
    cells: list[list[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.label not in LABELS:
            raise ValueError(f"block label {self.label!r} is unknown; expected one of {LABELS}")

    @property
    def text(self) -> str:
        """The lines joined by one space; of a table, the cells in row order."""
        if self.cells:
            return " ".join(cell for row in self.cells for cell in row if cell)
        return " ".join(self.lines)


@dataclass
class Page:
    """``image`` is RGB; ``blocks`` are in reading order."""

    image: Image.Image
    blocks: list[Block]

    def add_ink(self, label: str, region: Box, paint: Callable[[], object], **truth: Any) -> Block | None:
        """Call ``paint``, which draws inside ``region``, and append a block bounded by the pixels it changed.

        Returns None, and appends nothing, where it changed none.
        """
        width, height = self.image.size
        left, top = max(0, region[0]), max(0, region[1])
        region = (left, top, min(width, region[2]), min(height, region[3]))
        before = self.image.crop(region)
        paint()
        changed = ImageChops.difference(before, self.image.crop(region)).getbbox()
        if changed is None:
            return None
        box = (changed[0] + left, changed[1] + top, changed[2] + left, changed[3] + top)
        block = Block(label, box, **truth)
        self.blocks.append(block)
        return block

    def truth(self) -> dict:
        """Ground truth as plain data: page size in px, blocks in reading order."""
        width, height = self.image.size
        blocks = []
        for order, block in enumerate(self.blocks, start=1):
            entry = {"order": order, "label": block.label, "bbox": list(block.bbox), "text": block.text}
            if block.lines:
                entry["lines"] = block.lines
            if block.cells:
                entry["cells"] = block.cells
            blocks.append(entry)
        return {"width": width, "height": height, "blocks": blocks}

    def save_truth(self, path: Path) -> None:
        path.write_text(json.dumps(self.truth(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
