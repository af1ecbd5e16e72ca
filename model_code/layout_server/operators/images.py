# SPDX-License-Identifier: Apache-2.0
"""Operations on maps of height and width."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from layout_server.operators.call import Call, Operator
from paddle_program.operators import nearest_factors


def nearest_interp(call: Call) -> Tensor:
    """The pixel at or before each place."""
    factors = nearest_factors(call)
    if any(factor % 1 for factor in factors):
        raise call.unknown(f"scale={factors}; known: whole factors")
    pages, channels, height, width = call[0].shape
    down, right = map(int, factors)
    pixels = call[0].reshape(pages, channels, height, 1, width, 1).expand(-1, -1, -1, down, -1, right)
    return pixels.reshape(pages, channels, height * down, width * right)


def pad3d(call: Call) -> Tensor:
    """Input 1: places before and after, of width, of height, of depth."""
    call.must("data_format", "NCDHW")
    call.must("mode", "constant")
    return functional.pad(call[0], call.numbers(1), value=call.attribute("pad_value"))


def pixel_unshuffle(call: Call) -> Tensor:
    """Squares of pixels become channels, in the order of channel, row, column."""
    call.must("data_format", "NCHW")
    return functional.pixel_unshuffle(call[0], call.attribute("downscale_factor"))


def grid_sample(call: Call) -> Tensor:
    return functional.grid_sample(
        call[0],
        call[1],
        mode=call.must("mode", "bilinear", "nearest"),
        padding_mode=call.must("padding_mode", "zeros", "border", "reflection"),
        align_corners=call.attribute("align_corners"),
    )


TABLE: dict[str, Operator] = {
    "grid_sample": grid_sample,
    "nearest_interp": nearest_interp,
    "pad3d": pad3d,
    "pixel_unshuffle": pixel_unshuffle,
}
