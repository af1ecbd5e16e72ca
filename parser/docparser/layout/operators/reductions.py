# SPDX-License-Identifier: Apache-2.0
"""Operations that go along axes: sums, extremes, sorting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from openvino import opset15 as nodes

from docparser.layout.operators.call import Call, Output, Translator, cast, constant, shape_of


def reduction(make: Callable[..., Any]) -> Translator:
    """Input 1 holds the axes; none of them means all."""

    def reduce(call: Call) -> Output:
        call.ignore("dtype", "reduce_all")  # `sum` names its result's type, which is the program's
        axes = call.numbers(1) or list(range(len(shape_of(call[0]))))
        return make(cast(call[0], call.type.element), constant(axes, "int64"), call.attribute("keepdim"))

    return reduce


def argmax(call: Call) -> Output:
    """The first of several highest."""
    call.must("flatten", False)
    (axis,) = call.numbers(1)
    call.must("dtype", "int64")
    highest = nodes.topk(
        call[0], constant(1, "int64"), axis, "max", "value", index_element_type="i64", stable=True
    ).output(1)
    return highest if call.attribute("keepdims") else nodes.squeeze(highest, constant([axis], "int64"))


def topk(call: Call) -> list[Output]:
    """Values and places; of equal values the first ones, in order. Paddle leaves the order of equal values open."""
    call.must("sorted", True)
    (count,) = call.numbers(1)
    return _sorted(call[0], count, call.attribute("axis"), call.attribute("largest"))


def argsort(call: Call) -> list[Output]:
    call.ignore("stable")  # ours is
    axis = call.attribute("axis")
    return _sorted(call[0], shape_of(call[0])[axis], axis, call.attribute("descending"))


def _sorted(values: Output, count: int, axis: int, falling: bool) -> list[Output]:
    node = nodes.topk(
        values,
        constant(count, "int64"),
        axis,
        "max" if falling else "min",
        "value",
        index_element_type="i64",
        stable=True,
    )
    return [node.output(0), node.output(1)]


def cumsum(call: Call) -> Output:
    call.must("flatten", False)
    (axis,) = call.numbers(1)
    return nodes.cum_sum(
        call[0], constant(axis, "int64"), exclusive=call.attribute("exclusive"), reverse=call.attribute("reverse")
    )


def softmax(call: Call) -> Output:
    return nodes.softmax(call[0], call.attribute("axis"))


TABLE: dict[str, Translator] = {
    "max": reduction(nodes.reduce_max),
    "mean": reduction(nodes.reduce_mean),
    "min": reduction(nodes.reduce_min),
    "prod": reduction(nodes.reduce_prod),
    "sum": reduction(nodes.reduce_sum),
    "argmax": argmax,
    "argsort": argsort,
    "cumsum": cumsum,
    "softmax": softmax,
    "topk": topk,
}
