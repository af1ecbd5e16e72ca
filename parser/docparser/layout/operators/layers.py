# SPDX-License-Identifier: Apache-2.0
"""Layers of networks: products of matrices, convolutions, normalisations; operations on maps of height and width."""

from __future__ import annotations

import math

from openvino import opset1
from openvino import opset15 as nodes

from docparser.layout.operators.call import Call, Output, Translator, constant, shape_of
from paddle_program.operators import batch_norm_inputs, bilinear_size, nearest_factors


def matmul(call: Call) -> Output:
    return nodes.matmul(call[0], call[1], call.attribute("transpose_x"), call.attribute("transpose_y"))


def bmm(call: Call) -> Output:
    return nodes.matmul(call[0], call[1], False, False)


def conv2d(call: Call) -> Output:
    """Filters ``[out, in / groups, height, width]``."""
    call.must("data_format", "NCHW")
    begins, ends, how = _padding(call)
    filters, groups = call[1], call.attribute("groups")
    strides, dilations = call.attribute("strides"), call.attribute("dilations")
    if groups == 1:
        return nodes.convolution(call[0], filters, strides, begins, ends, dilations, how)
    out, each, height, width = shape_of(filters)
    filters = nodes.reshape(filters, constant([groups, out // groups, each, height, width], "int64"), False)
    return nodes.group_convolution(call[0], filters, strides, begins, ends, dilations, how)


def _padding(call: Call) -> tuple[list[int], list[int], str]:
    """At the begin and the end of height and width: two numbers for both ends each, or all four."""
    how = {"EXPLICIT": "explicit", "SAME": "same_upper", "VALID": "valid"}
    pads = call.attribute("paddings")
    pads = [pads[0], pads[0], pads[1], pads[1]] if len(pads) == 2 else pads
    return pads[0::2], pads[1::2], how[call.must("padding_algorithm", *how)]


def pool2d(call: Call) -> Output:
    """Input 1 is the window's height and width."""
    call.must("data_format", "NCHW")
    call.must("global_pooling", False)
    call.must("adaptive", False)
    begins, ends, how = _padding(call)
    rounding = "ceil" if call.attribute("ceil_mode") else "floor"
    window, strides, exclusive = call.numbers(1), call.attribute("strides"), call.attribute("exclusive")
    if call.must("pooling_type", "max", "avg") == "avg":
        return nodes.avg_pool(call[0], strides, begins, ends, window, exclusive, rounding, how)
    # First along the height, then along the width: large windows at once have no fast kernel. Nor has the newer node,
    # which gives places too.
    (height, width), (down, right) = window, strides
    tall = opset1.max_pool(call[0], [down, 1], [begins[0], 0], [ends[0], 0], [height, 1], rounding, how)
    return opset1.max_pool(tall, [1, right], [0, begins[1]], [0, ends[1]], [1, width], rounding, how)


def batch_norm(call: Call) -> Output:
    values, mean, variance, scale, bias = batch_norm_inputs(call)
    return nodes.batch_norm_inference(values, scale, bias, mean, variance, call.attribute("epsilon"))


def layer_norm(call: Call) -> Output:
    """Over the axes from ``begin_norm_axis`` on; scale and bias, where given, have a value for each of their places."""
    shape = shape_of(call[0])
    first = call.attribute("begin_norm_axis")
    axes = constant(range(first, len(shape)), "int64")
    result = nodes.mvn(call[0], axes, True, call.attribute("epsilon"), "INSIDE_SQRT")
    for index, make in ((1, nodes.multiply), (2, nodes.add)):
        if call.has(index):
            assert math.prod(shape_of(call[index])) == math.prod(shape[first:])
            result = make(result, nodes.reshape(call[index], constant(shape[first:], "int64"), False))
    return result


LAYERS: dict[str, Translator] = {
    "batch_norm_": batch_norm,
    "bmm": bmm,
    "conv2d": conv2d,
    "depthwise_conv2d": conv2d,
    "layer_norm": layer_norm,
    "matmul": matmul,
    "pool2d": pool2d,
}


def nearest_interp(call: Call) -> Output:
    """The pixel at or before each place."""
    return nodes.interpolate(
        call[0],
        constant(nearest_factors(call), "float32"),
        "nearest",
        "scales",
        axes=constant([2, 3], "int64"),
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )


def bilinear_interp(call: Call) -> Output:
    _, _, height, width = shape_of(call[0])
    return nodes.interpolate(
        call[0],
        constant(bilinear_size(call, height, width), "int64"),
        "linear_onnx",
        "sizes",
        axes=constant([2, 3], "int64"),
        coordinate_transformation_mode="half_pixel",
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


IMAGES: dict[str, Translator] = {
    "bilinear_interp": bilinear_interp,
    "grid_sample": grid_sample,
    "nearest_interp": nearest_interp,
    "pad3d": pad3d,
    "pixel_unshuffle": pixel_unshuffle,
}
