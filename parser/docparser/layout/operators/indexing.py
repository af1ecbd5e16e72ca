# SPDX-License-Identifier: Apache-2.0
"""Operations that read from, or write to, places that another tensor names."""

from __future__ import annotations

import math

import numpy as np
from openvino import opset15 as nodes

from docparser.layout.operators.call import Call, Output, Translator, cast, constant, element_of, scalar, shape_of
from paddle_program.operators import written_places


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


TABLE: dict[str, Translator] = {
    "embedding": embedding,
    "gather": gather,
    "gather_nd": gather_nd,
    "index_put": index_put,
    "index_select": index_select,
    "set_value_": set_value,
    "set_value_with_tensor_": set_value_with_tensor,
    "take_along_axis": take_along_axis,
}
