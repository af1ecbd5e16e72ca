# SPDX-License-Identifier: Apache-2.0
"""Layers of networks: products of matrices, convolutions, normalisations; operations on maps of height and width."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from layout_server.operators.call import Call, Operator
from paddle_program.operators import batch_norm_inputs, bilinear_size, nearest_factors, of_inputs

Ends = tuple[tuple[int, int], tuple[int, int]]  # places before and after, of height and of width


def matmul(call: Call) -> Tensor:
    one, other = call[0], call[1]
    one = one.transpose(-1, -2) if call.attribute("transpose_x") else one
    return torch.matmul(one, other.transpose(-1, -2) if call.attribute("transpose_y") else other)


def conv2d(call: Call) -> Tensor:
    """Filters ``[out, in / groups, height, width]``."""
    call.must("data_format", "NCHW")
    strides, dilations = call.attribute("strides"), call.attribute("dilations")
    window = [(size - 1) * wide + 1 for size, wide in zip(call[1].shape[2:], dilations, strict=True)]
    ends = _padding(call, call[0], window, strides)
    image, padding = call[0], [before for before, _ in ends]
    if any(before != after for before, after in ends):
        image, padding = _pad(image, ends, 0.0), [0, 0]
    return functional.conv2d(image, call[1], None, strides, padding, dilations, call.attribute("groups"))


def _padding(call: Call, image: Tensor, window: list[int], strides: list[int]) -> Ends:
    how = call.must("padding_algorithm", "EXPLICIT", "SAME", "VALID")
    pads = call.attribute("paddings")  # two numbers for both ends each, or all four
    if how == "VALID":
        return (0, 0), (0, 0)
    if how == "EXPLICIT":
        top, bottom, left, right = [pads[0], pads[0], pads[1], pads[1]] if len(pads) == 2 else pads
        return (top, bottom), (left, right)
    wanted = [
        max((-(-size // stride) - 1) * stride + side - size, 0)
        for size, side, stride in zip(image.shape[2:], window, strides, strict=True)
    ]
    (rows, columns) = wanted
    return (rows // 2, rows - rows // 2), (columns // 2, columns - columns // 2)


def _pad(image: Tensor, ends: Ends, value: float) -> Tensor:
    (top, bottom), (left, right) = ends
    return functional.pad(image, (left, right, top, bottom), value=value) if any((*ends[0], *ends[1])) else image


def pool2d(call: Call) -> Tensor:
    """Input 1 is the window's height and width."""
    call.must("data_format", "NCHW")
    call.must("global_pooling", False)
    call.must("adaptive", False)
    window, strides, exclusive = call.numbers(1), call.attribute("strides"), call.attribute("exclusive")
    ends = _padding(call, call[0], window, strides)
    sizes = list(zip(call[0].shape[2:], ends, window, strides, strict=True))
    # With ceil_mode a last window counts that lies partly beyond the end.
    beyond = [-(size + sum(end) - side) % stride for size, end, side, stride in sizes]
    if call.attribute("ceil_mode"):
        ends = (ends[0][0], ends[0][1] + beyond[0]), (ends[1][0], ends[1][1] + beyond[1])
    if call.must("pooling_type", "max", "avg") == "max":
        return functional.max_pool2d(_pad(call[0], ends, -torch.inf), window, strides)
    if call.attribute("ceil_mode") and any(beyond):
        raise call.unknown("an average over windows beyond the end")
    total = functional.avg_pool2d(_pad(call[0], ends, 0.0), window, strides)
    if not exclusive or not any((*ends[0], *ends[1])):
        return total
    inside = functional.avg_pool2d(_pad(torch.ones([1, 1, *call[0].shape[2:]]), ends, 0.0), window, strides)
    return total / inside


def batch_norm(call: Call) -> Tensor:
    """One factor and one shift for each channel, which are known before a page comes."""
    values, mean, variance, scale, bias = batch_norm_inputs(call)
    factor = (scale / torch.sqrt(variance + call.attribute("epsilon"))).reshape(-1, 1, 1)
    shift = bias.reshape(-1, 1, 1) - mean.reshape(-1, 1, 1) * factor
    return values * factor + shift


def layer_norm(call: Call) -> Tensor:
    """Over the axes from ``begin_norm_axis`` on; scale and bias, where given, have a value for each of their places."""
    shape = call[0].shape[call.attribute("begin_norm_axis") :]
    scale, bias = ((part if part is None else part.reshape(shape)) for part in map(call.optional, (1, 2)))
    return functional.layer_norm(call[0], shape, scale, bias, call.attribute("epsilon"))


def nearest_interp(call: Call) -> Tensor:
    """The pixel at or before each place."""
    factors = nearest_factors(call)
    if any(factor % 1 for factor in factors):
        raise call.unknown(f"scale={factors}; known: whole factors")
    pages, channels, height, width = call[0].shape
    down, right = map(int, factors)
    pixels = call[0].reshape(pages, channels, height, 1, width, 1).expand(-1, -1, -1, down, -1, right)
    return pixels.reshape(pages, channels, height * down, width * right)


def bilinear_interp(call: Call) -> Tensor:
    size = bilinear_size(call, *call[0].shape[2:])
    return functional.interpolate(call[0], size, mode="bilinear", align_corners=False)


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
    **of_inputs(2, {"bmm": torch.bmm}),
    "batch_norm_": batch_norm,
    "conv2d": conv2d,
    "depthwise_conv2d": conv2d,
    "layer_norm": layer_norm,
    "matmul": matmul,
    "pool2d": pool2d,
    "bilinear_interp": bilinear_interp,
    "grid_sample": grid_sample,
    "nearest_interp": nearest_interp,
    "pad3d": pad3d,
    "pixel_unshuffle": pixel_unshuffle,
}
