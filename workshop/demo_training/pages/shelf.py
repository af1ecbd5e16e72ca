# SPDX-License-Identifier: Apache-2.0
"""Pages that typesetters made (``typesetters.make``), for the layout model."""

from __future__ import annotations

import json
from pathlib import Path

from PIL import Image

from .page import Block, Page


def shelf_pages(shelf: Path) -> list[Path]:
    """The pages of a shelf (``typesetters.make``) whose blocks are known, without their suffix. Raises
    FileNotFoundError where there is none."""
    found = [path for path in sorted(shelf.glob("*.json")) if json.loads(path.read_text(encoding="ascii"))["blocks"]]
    if not found:
        raise FileNotFoundError(
            f"{shelf} holds no pages with blocks; "
            f"make them with: python -m demo_training.typesetters.make --out {shelf}"
        )
    return [path.with_suffix("") for path in found]


def shelf_page(name: Path) -> Page:
    """One page of a shelf, without its texts."""
    blocks = json.loads(name.with_suffix(".json").read_text(encoding="ascii"))["blocks"]
    image = Image.open(name.with_suffix(".png")).convert("RGB")
    return Page(image, [Block(block["label"], tuple(map(round, block["bbox"]))) for block in blocks])
