# SPDX-License-Identifier: Apache-2.0
"""Operations that go along axes: sums, extremes, sorting."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from layout_server.operators.call import Call, Operator


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


TABLE: dict[str, Operator] = {
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
