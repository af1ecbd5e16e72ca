# SPDX-License-Identifier: Apache-2.0
"""Operations on each element for itself. Two inputs are broadcast as in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from openvino import opset15 as nodes

from docparser.layout.operators.call import Call, Output, Translator, cast, element_of, scalar


def unary(make: Callable[..., Any]) -> Translator:
    return lambda call: make(call[0])


def binary(make: Callable[..., Any]) -> Translator:
    return lambda call: make(call[0], call[1])


def same(call: Call) -> Output:
    return call[0]


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


def where(call: Call) -> Output:
    return nodes.select(call[0], call[1], call[2])


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


def dropout(call: Call) -> Output:
    """As it is after training. Input 1 is a seed, input 2 the share that training drops."""
    call.must("is_test", True)
    call.must("mode", "upscale_in_train")  # the other mode scales here
    call.ignore("seed", "fix_seed")
    return call[0]


TABLE: dict[str, Translator] = {
    **{
        name: unary(make)
        for name, make in {
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
        }.items()
    },
    **{
        name: binary(make)
        for name, make in {
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
        }.items()
    },
    "bitwise_and": bitwise_and,
    "cast": to_type,
    "clip": clip,
    "dropout": dropout,
    "floor_divide": floor_divide,
    "gelu": gelu,
    "scale": scale,
    "share_data_": same,
    "where": where,
}
