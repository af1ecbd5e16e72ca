# SPDX-License-Identifier: Apache-2.0
"""How many pixels an image may have after resizing: the checkpoint's limits, a request's, and the operator's bound."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

MAX_ASPECT_RATIO = 200  # of an image; the processors of all families refuse more


def most_blocks(bound: int, factor: int) -> int:
    """Blocks of ``factor`` x ``factor`` pixels that no image of at most ``bound`` pixels exceeds. A small, thin image
    that is enlarged is rounded up on both sides, so it can pass the bound by a row and a column."""
    blocks = bound // factor**2
    return blocks + math.ceil((MAX_ASPECT_RATIO + 1) * math.sqrt(blocks / MAX_ASPECT_RATIO)) + 1


@dataclass(frozen=True)
class PixelLimits:
    """How many pixels an image may have after resizing; ``bound`` is the operator's, for every request."""

    min_pixels: int
    max_pixels: int
    bound: int

    def for_request(self, options: dict[str, Any]) -> PixelLimits:
        """Limits with a request's ``mm_processor_kwargs`` applied; ``max_pixels`` is cut to ``bound``.

        Raises:
            ValueError: for keys other than min_pixels and max_pixels, for values that are no positive
                integers, and where nothing lies between the two limits.
        """
        for key, value in options.items():
            if key not in ("min_pixels", "max_pixels"):
                raise ValueError(f"mm_processor_kwargs: unknown key {key!r}; min_pixels and max_pixels are known")
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"mm_processor_kwargs.{key}: {value!r} is not a positive whole number of pixels")
        limits = replace(self, **options)
        # A request may name one of the two only: the other, a default, gives way.
        if "max_pixels" not in options:
            limits = replace(limits, max_pixels=max(limits.max_pixels, limits.min_pixels))
        limits = replace(limits, max_pixels=min(limits.max_pixels, self.bound))
        if "min_pixels" not in options:
            limits = replace(limits, min_pixels=min(limits.min_pixels, limits.max_pixels))
        if limits.min_pixels > limits.max_pixels:
            raise ValueError(
                f"mm_processor_kwargs.min_pixels: {limits.min_pixels} is more than max_pixels, "
                f"which is {limits.max_pixels} (this server allows at most {self.bound})"
            )
        return limits
