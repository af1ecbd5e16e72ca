# SPDX-License-Identifier: Apache-2.0
"""Operations on each element for itself, broadcast as in NumPy, and along axes: sums, extremes, sorting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from openvino import opset15 as nodes

from docparser.layout.operators.call import Call, Output, Translator, cast, constant, element_of, scalar, shape_of
from paddle_program.operators import of_inputs


def scale(call: Call) -> Output:
    """Factor (input 1) and bias are of the input's type: for integers they are cut to integers before."""
    element = element_of(call[0])
    factor = scalar(call[1], element)
    bias = nodes.constant(np.asarray(call.attribute("bias"), element))
    if call.attribute("bias_after_scale"):
        return nodes.add(nodes.multiply(call[0], factor), bias)
    return nodes.multiply(nodes.add(call[0], bias), factor)


def clip(call: Call) -> Output:
    low, high = (scalar(call[index], element_of(call[0])) for index in (1, 2))
    return nodes.minimum(nodes.maximum(call[0], low), high)


def to_type(call: Call) -> Output:
    return cast(call[0], call.attribute("dtype"))


def floor_divide(call: Call) -> Output:
    """Rounded down, for integers too, whose division by OpenVINO is rounded towards zero on some processors."""
    if element_of(call[0]).startswith("float"):
        return nodes.floor(nodes.divide(call[0], call[1]))
    return nodes.divide(nodes.subtract(call[0], nodes.floor_mod(call[0], call[1])), call[1])


def gelu(call: Call) -> Output:
    return nodes.gelu(call[0], "tanh" if call.attribute("approximate") else "erf")


def bitwise_and(call: Call) -> Output:
    make = nodes.logical_and if element_of(call[0]) == "bool" else nodes.bitwise_and
    return make(call[0], call[1])


ELEMENTWISE: dict[str, Translator] = {
    **of_inputs(
        1,
        {
            "abs": nodes.abs,
            "ceil": nodes.ceiling,
            "cos": nodes.cos,
            "exp": nodes.exp,
            "floor": nodes.floor,
            "log": nodes.log,
            "logical_not": nodes.logical_not,
            "relu": nodes.relu,
            "sigmoid": nodes.sigmoid,
            "silu": nodes.swish,
            "sin": nodes.sin,
            "sqrt": nodes.sqrt,
            "tanh": nodes.tanh,
        },
    ),
    **of_inputs(
        2,
        {
            "add": nodes.add,
            "divide": nodes.divide,
            "elementwise_pow": nodes.power,
            "equal": nodes.equal,
            "greater_equal": nodes.greater_equal,
            "greater_than": nodes.greater,
            "less_equal": nodes.less_equal,
            "less_than": nodes.less,
            "logical_and": nodes.logical_and,
            "logical_or": nodes.logical_or,
            "maximum": nodes.maximum,
            "minimum": nodes.minimum,
            "multiply": nodes.multiply,
            "not_equal": nodes.not_equal,
            "remainder": nodes.floor_mod,
            "subtract": nodes.subtract,
        },
    ),
    **of_inputs(3, {"where": nodes.select}),
    "bitwise_and": bitwise_and,
    "cast": to_type,
    "clip": clip,
    "floor_divide": floor_divide,
    "gelu": gelu,
    "scale": scale,
}


def reduction(make: Callable[..., Any]) -> Translator:
    """Input 1 holds the axes; none of them means all."""

    def reduce(call: Call) -> Output:
        call.ignore("dtype", "reduce_all")  # `sum` names its result's type, which is the program's
        axes = call.numbers(1) or list(range(len(shape_of(call[0]))))
        return make(cast(call[0], call.type.element), constant(axes, "int64"), call.attribute("keepdim"))

    return reduce


def any_(call: Call) -> Output:
    axes = call.attribute("axis") or list(range(len(shape_of(call[0]))))
    return nodes.reduce_logical_or(cast(call[0], "bool"), constant(axes, "int64"), call.attribute("keepdim"))


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


REDUCTIONS: dict[str, Translator] = {
    "any": any_,
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
