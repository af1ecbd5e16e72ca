# SPDX-License-Identifier: Apache-2.0
"""The parts of operations that need no library of tensors. Names and meanings are those of Paddle's ops.yaml."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from paddle_program.call import OperatorCall, Tensor


def of_inputs(count: int, functions: Mapping[str, Callable[..., Any]]) -> dict[str, Callable[[Any], Any]]:
    """Operations without attributes: a function of the library takes the first ``count`` inputs."""

    def taking(function: Callable[..., Any]) -> Callable[[Any], Any]:
        return lambda call: function(*(call[index] for index in range(count)))

    return {name: taking(function) for name, function in functions.items()}


def dropout(call: OperatorCall[Tensor]) -> Tensor:
    """As it is after training. Input 1 is a seed, input 2 the share that training drops."""
    call.must("is_test", True)
    call.must("mode", "upscale_in_train")  # the other mode scales here
    call.ignore("seed", "fix_seed")
    return call[0]


def combine(call: OperatorCall[Tensor]) -> list[Tensor]:
    return [call[index] for index in range(len(call))]


TABLE: dict[str, Callable[[Any], Any]] = {
    **of_inputs(1, {"share_data_": lambda value: value}),
    "builtin.combine": combine,
    "builtin.split": lambda call: call.tensors(0),
    "dropout": dropout,
}


def batch_norm_inputs(call: OperatorCall[Tensor]) -> list[Tensor]:
    """Values, mean, variance, scale, bias. Training would write the statistics."""
    call.must("data_format", "NCHW")
    call.must("is_test", True)
    call.must("trainable_statistics", False)
    call.ignore("momentum", "use_global_stats")
    return [call[index] for index in range(5)]


def nearest_factors(call: OperatorCall[Any]) -> list[float]:
    """By which `nearest_interp` enlarges height and width. Inputs 1 to 3 would be sizes, and factors, as tensors."""
    call.must("data_format", "NCHW")
    call.must("interp_method", "nearest")
    call.must("align_corners", False)
    call.ignore("align_mode")  # of linear methods
    for name in ("out_d", "out_h", "out_w"):
        call.must(name, -1)
    factors = call.attribute("scale")
    if any(call.has(index) for index in (1, 2, 3)) or len(factors) != 2:
        raise call.unknown("sizes that are not two factors")
    return factors


def bilinear_size(call: OperatorCall[Any], height: int, width: int) -> tuple[int, int]:
    """Height and width of `bilinear_interp`'s result, from ``height`` and ``width`` of its input.

    Factors come first, then sizes as one tensor (input 1) or several (input 2), then as attributes. Known is the form
    in which a pixel stands in the middle of its place.
    """
    call.must("data_format", "NCHW")
    call.must("interp_method", "bilinear")
    call.must("align_corners", False)
    call.must("align_mode", 0)
    call.must("out_d", -1)
    if call.has(3):
        raise call.unknown("factors as a tensor")
    factors, sizes = call.attribute("scale"), [call.attribute("out_h"), call.attribute("out_w")]
    if factors:
        sizes = [int(size * factor) for size, factor in zip((height, width), factors, strict=True)]
    elif given := [index for index in (1, 2) if call.has(index)]:
        sizes = call.numbers(given[0])
    rows, columns = sizes
    return rows, columns


def written_places(call: OperatorCall[Any], shape: Sequence[int], first: int) -> np.ndarray:
    """The places that a slice of the tensor takes, counted as if the tensor had one axis; int64, in the slice's shape.

    Inputs from ``first`` on are the slice's starts, ends and steps.
    """
    call.must("none_axes", [])
    axes, gone = call.attribute("axes"), call.attribute("decrease_axes")
    cut = [slice(None)] * len(shape)
    for axis, start, stop, step in zip(axes, *(call.numbers(first + index) for index in range(3)), strict=True):
        cut[axis] = slice(start, stop, step)
    return np.arange(math.prod(shape)).reshape(shape)[tuple(cut)].squeeze(tuple(gone))
