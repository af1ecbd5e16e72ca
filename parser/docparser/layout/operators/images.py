# SPDX-License-Identifier: Apache-2.0
"""Operations on maps of height and width."""

from __future__ import annotations

import numpy as np
from openvino import opset15 as nodes

from docparser.layout.operators.call import Call, Output, Translator, constant, shape_of


def nearest_interp(call: Call) -> Output:
    """The pixel at or before each place, by a factor; inputs 1 to 3 would be sizes, and factors, as tensors."""
    call.must("data_format", "NCHW")
    call.must("interp_method", "nearest")
    call.must("align_corners", False)
    call.ignore("align_mode")  # of linear methods
    for name in ("out_d", "out_h", "out_w"):
        call.must(name, -1)
    if any(call.has(index) for index in (1, 2, 3)) or len(call.attribute("scale")) != 2:
        raise call.unknown("sizes that are not two factors")
    factors = np.asarray(call.attribute("scale"), np.float32)
    return nodes.interpolate(
        call[0],
        nodes.constant(factors),
        "nearest",
        "scales",
        axes=constant([2, 3], "int64"),
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )


def pad3d(call: Call) -> Output:
    """Input 1: places before and after, of width, of height, of depth."""
    call.must("data_format", "NCDHW")
    call.must("mode", "constant")
    pads = call.numbers(1)
    begins, ends = [0, 0, *pads[4::-2]], [0, 0, *pads[5::-2]]
    value = constant(call.attribute("pad_value"), call.type.element)
    return nodes.pad(call[0], constant(begins, "int64"), constant(ends, "int64"), "constant", value)


def pixel_unshuffle(call: Call) -> Output:
    """Squares of pixels become channels, in the order of channel, row, column."""
    call.must("data_format", "NCHW")
    side = call.attribute("downscale_factor")
    pages, channels, height, width = shape_of(call[0])
    squares = [pages, channels, height // side, side, width // side, side]
    parts = nodes.transpose(
        nodes.reshape(call[0], constant(squares, "int64"), False), constant([0, 1, 3, 5, 2, 4], "int64")
    )
    result = [pages, channels * side * side, height // side, width // side]
    return nodes.reshape(parts, constant(result, "int64"), False)


def grid_sample(call: Call) -> Output:
    modes = {"bilinear": "bilinear", "nearest": "nearest"}
    edges = {"zeros": "zeros", "border": "border", "reflection": "reflection"}
    return nodes.grid_sample(
        call[0],
        call[1],
        {
            "align_corners": call.attribute("align_corners"),
            "mode": modes[call.must("mode", *modes)],
            "padding_mode": edges[call.must("padding_mode", *edges)],
        },
    )


TABLE: dict[str, Translator] = {
    "grid_sample": grid_sample,
    "nearest_interp": nearest_interp,
    "pad3d": pad3d,
    "pixel_unshuffle": pixel_unshuffle,
}
