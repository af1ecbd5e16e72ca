# SPDX-License-Identifier: Apache-2.0
"""Operations on each element for itself. Two inputs are broadcast as in NumPy."""

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
}
