# SPDX-License-Identifier: Apache-2.0
"""Operations that make values from nothing, or from a shape."""

from __future__ import annotations

import numpy as np
from openvino import opset15 as nodes

from docparser.layout.operators.call import Call, Output, Translator, constant, scalar, shape_of


def full(call: Call) -> Output:
    return constant(np.full(call.attribute("shape"), call.attribute("value")), call.attribute("dtype"))


def full_int_array(call: Call) -> Output:
    return constant(call.attribute("value"), call.attribute("dtype"))


def full_like(call: Call) -> Output:
    """Input 1 is the value, one element."""
    element = call.attribute("dtype")
    element = call.type.element if element.startswith("Undefined") else element
    return nodes.broadcast(scalar(call[1], element), constant(shape_of(call[0]), "int64"))


def full_with_tensor(call: Call) -> Output:
    """Input 0 is the value, input 1 the shape."""
    value = scalar(call[0], call.attribute("dtype"))
    return nodes.broadcast(value, call.sizes(1))


def assign_value(call: Call) -> Output:
    """Input 0 is what is written over."""
    return constant(np.reshape(call.attribute("values"), call.attribute("shape")), call.attribute("dtype"))


def arange(call: Call) -> Output:
    element = call.attribute("dtype")
    start, stop, step = (scalar(call[index], element) for index in range(3))
    return nodes.range(start, stop, step, {"int64": "i64", "int32": "i32", "float32": "f32"}[element])


def shape64(call: Call) -> Output:
    return constant(shape_of(call[0]), "int64")


def meshgrid(call: Call) -> list[Output]:
    """Each vector along an axis of its own, in order ("ij")."""
    vectors = call.tensors(0)
    sizes = [shape_of(part)[0] for part in vectors]
    grids = []
    for axis, part in enumerate(vectors):
        along = [1] * len(vectors)
        along[axis] = -1
        grids.append(nodes.broadcast(nodes.reshape(part, along, False), constant(sizes, "int64")).output(0))
    return grids


TABLE: dict[str, Translator] = {
    "full": full,
    "full_int_array": full_int_array,
    "full_like": full_like,
    "full_with_tensor": full_with_tensor,
    "assign_value_": assign_value,
    "arange": arange,
    "shape64": shape64,
    "meshgrid": meshgrid,
}
