# SPDX-License-Identifier: Apache-2.0
"""Operations on each element for itself, broadcast as in NumPy, and along axes: sums, extremes, sorting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from layout_server.operators.call import Call, Operator, element_of
from paddle_program.operators import of_inputs


def scale(call: Call) -> Tensor:
    """Factor (input 1) and bias are of the input's type: for integers they are cut to integers before."""
    values = call[0]
    factor = call.scalar(1, values.dtype)
    bias = call.attribute("bias") if values.is_floating_point() else int(call.attribute("bias"))
    return values * factor + bias if call.attribute("bias_after_scale") else (values + bias) * factor


def clip(call: Call) -> Tensor:
    low, high = (call.scalar(index, call[0].dtype) for index in (1, 2))
    return torch.minimum(torch.maximum(call[0], low), high)


def to_type(call: Call) -> Tensor:
    return call[0].to(element_of(call.attribute("dtype")))


def floor_divide(call: Call) -> Tensor:
    """Rounded down, for integers too."""
    if call[0].is_floating_point():
        return torch.floor(call[0] / call[1])
    return torch.div(call[0], call[1], rounding_mode="floor")


def gelu(call: Call) -> Tensor:
    return functional.gelu(call[0], approximate="tanh" if call.attribute("approximate") else "none")


def reduction(make: Callable[..., Tensor]) -> Operator:
    """Input 1 holds the axes; none of them means all."""

    def reduce(call: Call) -> Tensor:
        call.ignore("dtype", "reduce_all")  # `sum` names its result's type, which is the program's
        axes = call.numbers(1) or list(range(call[0].dim()))
        return make(call[0].to(call.element), dim=axes, keepdim=call.attribute("keepdim"))

    return reduce


def product(values: Tensor, dim: list[int], keepdim: bool) -> Tensor:
    """torch's takes one axis."""
    for axis in sorted((axis % values.dim() for axis in dim), reverse=True):
        values = torch.prod(values, axis, keepdim=keepdim)
    return values


def any_(call: Call) -> Tensor:
    axes = call.attribute("axis") or list(range(call[0].dim()))
    return torch.amax(call[0].to(torch.int32), axes, call.attribute("keepdim")).to(torch.bool)


def argmax(call: Call) -> Tensor:
    """The first of several highest."""
    call.must("flatten", False)
    (axis,) = call.numbers(1)
    call.must("dtype", "int64")
    return torch.argmax(call[0], axis, keepdim=call.attribute("keepdims"))


def topk(call: Call) -> list[Tensor]:
    """Values and places; of equal values the first ones, in order. Paddle leaves the order of equal values open."""
    call.must("sorted", True)
    (count,) = call.numbers(1)
    axis = call.attribute("axis")
    return [part.narrow(axis, 0, count) for part in in_order(call[0], axis, call.attribute("largest"))]


def argsort(call: Call) -> list[Tensor]:
    call.ignore("stable")  # ours is
    return list(in_order(call[0], call.attribute("axis"), call.attribute("descending")))


def in_order(values: Tensor, axis: int, falling: bool) -> tuple[Tensor, Tensor]:
    """torch.topk leaves the order of equal values open, and which of them are taken, so all are sorted."""
    found = torch.sort(values, stable=True, dim=axis, descending=falling)
    return found.values, found.indices


def cumsum(call: Call) -> Tensor:
    call.must("flatten", False)
    call.must("exclusive", False)
    call.must("reverse", False)
    (axis,) = call.numbers(1)
    return torch.cumsum(call[0], axis, dtype=call[0].dtype)


def softmax(call: Call) -> Tensor:
    return torch.softmax(call[0], call.attribute("axis"))


UNARY: dict[str, Callable[..., Any]] = {
    "abs": torch.abs,
    "ceil": torch.ceil,
    "cos": torch.cos,
    "exp": torch.exp,
    "floor": torch.floor,
    "log": torch.log,
    "logical_not": torch.logical_not,
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
    "silu": functional.silu,
    "sin": torch.sin,
    "sqrt": torch.sqrt,
    "tanh": torch.tanh,
}
BINARY: dict[str, Callable[..., Any]] = {
    "add": torch.add,
    "bitwise_and": torch.bitwise_and,
    "divide": torch.div,
    "elementwise_pow": torch.pow,
    "equal": torch.eq,
    "greater_equal": torch.ge,
    "greater_than": torch.gt,
    "less_equal": torch.le,
    "less_than": torch.lt,
    "logical_and": torch.logical_and,
    "logical_or": torch.logical_or,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "multiply": torch.mul,
    "not_equal": torch.ne,
    "remainder": torch.remainder,
    "subtract": torch.sub,
}
TABLE: dict[str, Operator] = {
    **of_inputs(1, UNARY),
    **of_inputs(2, BINARY),
    **of_inputs(3, {"where": torch.where}),
    "cast": to_type,
    "clip": clip,
    "floor_divide": floor_divide,
    "gelu": gelu,
    "scale": scale,
    "any": any_,
    "max": reduction(torch.amax),
    "mean": reduction(torch.mean),
    "min": reduction(torch.amin),
    "prod": reduction(product),
    "sum": reduction(lambda values, dim, keepdim: torch.sum(values, dim, keepdim=keepdim, dtype=values.dtype)),
    "argmax": argmax,
    "argsort": argsort,
    "cumsum": cumsum,
    "softmax": softmax,
    "topk": topk,
}
