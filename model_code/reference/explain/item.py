# SPDX-License-Identifier: Apache-2.0
"""One image or video as a model sees it: sizes and why, patches, grid, tokens, and what the tower computes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tool_errors import UsageError


@dataclass(frozen=True)
class Tower:
    """What of a vision tower decides sizes and cost; ``merge`` x ``merge`` patches become a token."""

    patch: int
    merge: int
    frames: int  # that share a patch
    layers: int
    width: int
    inner: int

    @classmethod
    def of(cls, config: Any) -> Tower:
        """From the vision section of a configuration of any family."""
        width = getattr(config, "embed_dim", None) or config.hidden_size
        inner = getattr(config, "intermediate_size", None) or int(width * config.mlp_ratio)
        layers = getattr(config, "depth", None) or config.num_hidden_layers
        frames = config.temporal_patch_size if hasattr(config, "depth") else 1
        return cls(config.patch_size, config.spatial_merge_size, frames, layers, width, inner)

    def gflop(self, grid: tuple[int, int, int]) -> float:
        """Billions of operations in the layers' products, two for each multiplication with its addition.

        Attention sees all patches of an image, or of a pair of frames.
        """
        pairs, rows, columns = grid
        patches = rows * columns
        products = 4 * self.width**2 + 2 * self.width * self.inner
        return 2 * pairs * self.layers * (patches * products + 2 * patches**2 * self.width) / 1e9


@dataclass(frozen=True)
class Item:
    """``grid`` counts (pairs of frames, rows, columns) of patches; ``size`` is (height, width) in the file; ``tokens``
    are all that stand for it in the prompt, those around its places included."""

    name: str
    size: tuple[int, int]
    frames: int
    limits: tuple[int, int]
    grid: tuple[int, int, int]
    tokens: int
    tower: Tower

    @property
    def resized(self) -> tuple[int, int]:
        return self.grid[1] * self.tower.patch, self.grid[2] * self.tower.patch

    @property
    def patches(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def tokens_of_a_row(self) -> int:
        """One more than blocks where a row ends with a token of its own (HunyuanOCR)."""
        return self.grid[2] // self.tower.merge + self.has_edges

    @property
    def has_edges(self) -> bool:
        """Whether a token stands before the rows and one behind them, as in HunyuanOCR."""
        down, across = (side // self.tower.merge for side in self.grid[1:])
        return not self.frames and self.tokens == down * (across + 1) + 2

    @property
    def why(self) -> str:
        """Why the resized size is what it is."""
        factor = self.tower.patch * self.tower.merge
        height, width = (max(factor, round(side / factor) * factor) for side in self.size)
        least, most = self.limits
        rounded = f"multiples of {factor} = {self.tower.patch} x {self.tower.merge}"
        if height * width > most:
            return f"reduced to at most {most} pixels, then down to {rounded}"
        if height * width < least:
            return f"enlarged to at least {least} pixels, then up to {rounded}"
        if (height, width) == self.size:
            return f"as it is: both sides are {rounded}"
        return f"each side to the nearest of the {rounded}"

    def rows(self) -> list[tuple[str, str]]:
        """The table's lines."""
        pairs, rows, columns = self.grid
        times = f"{pairs} x " if self.frames else ""
        gflop = self.tower.gflop(self.grid)
        return [
            ("size", f"{self.size[0]} x {self.size[1]}" + (f", {self.frames} frames" if self.frames else "")),
            ("resized", f"{self.resized[0]} x {self.resized[1]}: {self.why}"),
            ("grid", f"{times}{rows} x {columns} patches of {self.tower.patch} x {self.tower.patch}"),
            ("patches", str(self.patches)),
            ("tokens", f"{self.tokens}, a token for {self.tower.merge} x {self.tower.merge} patches"),
            ("vision tower", f"{gflop:.1f} GFLOP in {self.tower.layers} layers"),
        ]


def grid_of(values: Any, name: str) -> tuple[int, int, int]:
    """A processor's grid as whole numbers. Raises UsageError for none."""
    pairs, rows, columns = (int(value) for value in values)
    if not pairs * rows * columns:
        raise UsageError(f"{name}: the processor made no patches of it")
    return pairs, rows, columns
