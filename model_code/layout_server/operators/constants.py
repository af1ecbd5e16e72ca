# SPDX-License-Identifier: Apache-2.0
"""Operations that make values from nothing, or from a shape."""

from __future__ import annotations

import torch
from torch import Tensor

from layout_server.operators.call import Call, Operator, element_of


def full(call: Call) -> Tensor:
    return torch.full(call.attribute("shape"), call.attribute("value"), dtype=element_of(call.attribute("dtype")))


def full_int_array(call: Call) -> Tensor:
    return torch.tensor(call.attribute("value"), dtype=element_of(call.attribute("dtype")))


def full_like(call: Call) -> Tensor:
    """Input 1 is the value, one element."""
    name = call.attribute("dtype")
    element = call.element if name.startswith("Undefined") else element_of(name)
    return call.scalar(1, element).expand(call[0].shape)


def full_with_tensor(call: Call) -> Tensor:
    """Input 0 is the value, input 1 the shape."""
    return call.scalar(0, element_of(call.attribute("dtype"))).expand(call.numbers(1))


def assign_value(call: Call) -> Tensor:
    """Input 0 is overwritten."""
    values = torch.tensor(call.attribute("values"), dtype=element_of(call.attribute("dtype")))
    return values.reshape(call.attribute("shape"))


def arange(call: Call) -> Tensor:
    element = element_of(call.attribute("dtype"))
    start, stop, step = (call.scalar(index, element).item() for index in range(3))
    return torch.arange(start, stop, step, dtype=element)


def shape64(call: Call) -> Tensor:
    return torch.tensor(list(call[0].shape), dtype=torch.int64)


def meshgrid(call: Call) -> list[Tensor]:
    """Each vector along an axis of its own, in order ("ij")."""
    return list(torch.meshgrid(*call.tensors(0), indexing="ij"))


TABLE: dict[str, Operator] = {
    "full": full,
    "full_int_array": full_int_array,
    "full_like": full_like,
    "full_with_tensor": full_with_tensor,
    "assign_value_": assign_value,
    "arange": arange,
    "shape64": shape64,
    "meshgrid": meshgrid,
}
