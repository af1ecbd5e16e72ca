# SPDX-License-Identifier: Apache-2.0
"""Sizes of the demo model. Key names are those of the published ``config.json``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DemoConfig:
    """A small PaddleOCR-VL: same blocks, fewer and narrower. Sizes in features unless said."""

    vocab_size: int = 1024
    vision_hidden: int = 128
    vision_intermediate: int = 512
    vision_layers: int = 6
    vision_heads: int = 4
    patch: int = 14
    merge: int = 2
    image_size: int = 384
    text_hidden: int = 192
    text_intermediate: int = 448
    text_layers: int = 8
    text_heads: int = 3
    text_kv_heads: int = 3
    head_dim: int = 64
    mrope_section: tuple[int, int, int] = (8, 12, 12)
    # Small on purpose: the width section holds the slowest angles, and with the published
    # 500000 they would not turn at all over the few dozen columns of a crop.
    rope_theta: float = 500.0

    @property
    def positions_per_side(self) -> int:
        return self.image_size // self.patch
