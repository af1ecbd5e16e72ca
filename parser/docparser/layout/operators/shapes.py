# SPDX-License-Identifier: Apache-2.0
"""Operations that move values and compute none: from nothing or a shape, in slices, joined or divided, and from or to
places that another tensor names."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from openvino import opset15 as nodes

from docparser.layout.operators.call import Call, Output, Translator, cast, constant, element_of, scalar, shape_of
from paddle_program.operators import written_places

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


def broadcast_tensors(call: Call) -> list[Output]:
    tensors = call.tensors(0)
    shape = constant(np.broadcast_shapes(*map(tuple, map(shape_of, tensors))), "int64")
    return [nodes.broadcast(tensor, shape) for tensor in tensors]


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
    "broadcast_tensors": broadcast_tensors,
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


def gather(call: Call) -> Output:
    return nodes.gather(call[0], call[1], call.sizes(2))


def index_select(call: Call) -> Output:
    return nodes.gather(call[0], call[1], constant(call.attribute("axis"), "int64"))


def gather_nd(call: Call) -> Output:
    return nodes.gather_nd(call[0], call[1])


def take_along_axis(call: Call) -> Output:
    """Places ``[..., n, ...]`` with the sizes of the values but along the axis."""
    return nodes.gather_elements(call[0], call[1], call.attribute("axis"))


def embedding(call: Call) -> Output:
    """Rows of input 1 by number; the row ``padding_idx`` counts as zeros (-1: none does)."""
    call.ignore("sparse")
    rows = nodes.gather(call[1], call[0], constant(0, "int64"))
    padding = call.attribute("padding_idx")
    if padding == -1:
        return rows
    is_padding = nodes.unsqueeze(nodes.equal(call[0], constant(padding, element_of(call[0]))), constant(-1, "int64"))
    return nodes.select(is_padding, constant(0, element_of(rows.output(0))), rows)


def set_value(call: Call) -> Output:
    """Input 0 with the attribute's values in a slice; inputs 1 to 3 are starts, ends and steps."""
    values = nodes.reshape(
        constant(call.attribute("values"), call.type.element), constant(call.attribute("shape"), "int64"), False
    )
    return _write_slice(call, values.output(0), 1)


def set_value_with_tensor(call: Call) -> Output:
    return _write_slice(call, cast(call[1], call.type.element), 2)


def _write_slice(call: Call, values: Output, first: int) -> Output:
    """A slice is written as a list of places."""
    shape = shape_of(call[0])
    places = written_places(call, shape, first)
    return nodes.reshape(
        nodes.scatter_elements_update(
            nodes.reshape(call[0], constant([-1], "int64"), False),
            constant(places.reshape(-1), "int64"),
            nodes.reshape(nodes.broadcast(values, constant(places.shape, "int64")), constant([-1], "int64"), False),
            constant(0, "int64"),
        ),
        constant(shape, "int64"),
        False,
    )


def index_put(call: Call) -> Output:
    """Input 1 lists the places: one mask of the whole tensor, or the places along each axis."""
    call.must("accumulate", False)
    indices, shape = call.tensors(1), shape_of(call[0])
    if len(indices) == 1 and element_of(indices[0]) == "bool":
        if shape_of(indices[0]) != shape or math.prod(shape_of(call[2])) != 1:
            raise call.unknown("a mask of a part of the tensor, or with a value for each place")
        return nodes.select(indices[0], scalar(call[2], call.type.element), call[0])
    if len(indices) != len(shape):
        raise call.unknown(f"places along {len(indices)} of {len(shape)} axes")
    common = np.broadcast_shapes(*(shape_of(part) for part in indices))
    spread = [nodes.broadcast(part, constant(common, "int64")) for part in indices]
    places = nodes.concat([nodes.unsqueeze(part, constant([-1], "int64")) for part in spread], -1)
    return nodes.scatter_nd_update(call[0], places, nodes.broadcast(call[2], constant(common, "int64")))


INDEXING: dict[str, Translator] = {
    "embedding": embedding,
    "gather": gather,
    "gather_nd": gather_nd,
    "index_put": index_put,
    "index_select": index_select,
    "set_value_": set_value,
    "set_value_with_tensor_": set_value_with_tensor,
    "take_along_axis": take_along_axis,
}
