# SPDX-License-Identifier: Apache-2.0
"""Operations that make values from nothing or from a shape, and those that move values: slices, joining, dividing."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from openvino import opset15 as nodes

from docparser.layout.operators.call import Call, Output, Translator, constant, scalar, shape_of

FIRST = -(2**31)  # before every place of an axis


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
    """Input 0 is overwritten."""
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


CONSTANTS: dict[str, Translator] = {
    "full": full,
    "full_int_array": full_int_array,
    "full_like": full_like,
    "full_with_tensor": full_with_tensor,
    "assign_value_": assign_value,
    "arange": arange,
    "shape64": shape64,
    "meshgrid": meshgrid,
}


def reshape(call: Call) -> Output:
    """0 keeps a size, -1 takes what is left."""
    return nodes.reshape(call[0], call.sizes(1), True)


def flatten(call: Call) -> Output:
    shape = shape_of(call[0])
    first, last = (call.attribute(name) % len(shape) for name in ("start_axis", "stop_axis"))
    joined = [*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :]]
    return nodes.reshape(call[0], constant(joined, "int64"), False)


def transpose(call: Call) -> Output:
    return nodes.transpose(call[0], constant(call.attribute("perm"), "int64"))


def unsqueeze(call: Call) -> Output:
    return nodes.unsqueeze(call[0], call.sizes(1))


def squeeze(call: Call) -> Output:
    """Without axes, all of size 1. An axis of another size stays."""
    shape = shape_of(call[0])
    axes = [axis % len(shape) for axis in call.numbers(1)] or range(len(shape))
    return nodes.squeeze(call[0], constant([axis for axis in axes if shape[axis] == 1], "int64"))


def expand(call: Call) -> Output:
    """-1 keeps a size."""
    sizes = nodes.maximum(call.sizes(1), constant(1, "int64"))
    return nodes.broadcast(call[0], sizes, broadcast_spec="BIDIRECTIONAL")


def expand_as(call: Call) -> Output:
    """Input 1 has the shape; the attribute repeats it."""
    call.ignore("target_shape")
    return nodes.broadcast(call[0], constant(shape_of(call[1]), "int64"), broadcast_spec="BIDIRECTIONAL")


def tile(call: Call) -> Output:
    return nodes.tile(call[0], call.sizes(1))


def flip(call: Call) -> Output:
    axes = call.attribute("axis")
    return _slice(call[0], [-1] * len(axes), [FIRST] * len(axes), [-1] * len(axes), axes)


def slice_(call: Call) -> Output:
    """``infer_flags`` say which ends were known when the program was made."""
    call.ignore("infer_flags")
    axes = constant(call.attribute("axes"), "int64")
    steps = constant([1] * len(call.attribute("axes")), "int64")
    part = nodes.slice(call[0], call.sizes(1), call.sizes(2), steps, axes)
    gone = call.attribute("decrease_axis")
    return nodes.squeeze(part, constant(gone, "int64")) if gone else part


def strided_slice(call: Call) -> Output:
    axes = constant(call.attribute("axes"), "int64")
    return nodes.slice(call[0], call.sizes(1), call.sizes(2), call.sizes(3), axes)


def _slice(value: Output, starts: list[int], stops: list[int], steps: list[int], axes: list[int]) -> Output:
    return nodes.slice(value, *(constant(numbers, "int64") for numbers in (starts, stops, steps, axes)))


def concat(call: Call) -> Output:
    (axis,) = call.numbers(1)
    return nodes.concat(call.tensors(0), axis)


def stack(call: Call) -> Output:
    parts = call.tensors(0)
    axis = call.attribute("axis") % (len(shape_of(parts[0])) + 1)
    return nodes.concat([nodes.unsqueeze(part, constant([axis], "int64")) for part in parts], axis)


def split(call: Call) -> list[Output]:
    (axis,) = call.numbers(2)
    return nodes.variadic_split(call[0], constant(axis, "int64"), call.sizes(1)).outputs()


def split_with_num(call: Call) -> list[Output]:
    (axis,) = call.numbers(1)
    return nodes.split(call[0], constant(axis, "int64"), call.attribute("num")).outputs()


def unbind(call: Call) -> list[Output]:
    axis = call.attribute("axis") % len(shape_of(call[0]))
    parts = nodes.split(call[0], constant(axis, "int64"), shape_of(call[0])[axis]).outputs()
    return [nodes.squeeze(part, constant([axis], "int64")).output(0) for part in parts]


def lower(call: Call) -> Output:
    return _triangle(call, np.tril)


def upper(call: Call) -> Output:
    return _triangle(call, np.triu)


def _triangle(call: Call, keep: Callable[..., np.ndarray]) -> Output:
    kept = keep(np.ones(shape_of(call[0]), bool), call.attribute("diagonal"))
    zero = constant(0, call.type.element)
    return nodes.select(nodes.constant(kept), call[0], zero)


SHAPES: dict[str, Translator] = {
    "concat": concat,
    "expand": expand,
    "expand_as": expand_as,
    "flatten": flatten,
    "flip": flip,
    "reshape": reshape,
    "slice": slice_,
    "split": split,
    "split_with_num": split_with_num,
    "squeeze": squeeze,
    "stack": stack,
    "strided_slice": strided_slice,
    "tile": tile,
    "transpose": transpose,
    "tril": lower,
    "triu": upper,
    "unbind": unbind,
    "unsqueeze": unsqueeze,
}
