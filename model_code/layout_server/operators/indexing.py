# SPDX-License-Identifier: Apache-2.0
"""Operations that read from, or write to, places that another tensor names."""

from __future__ import annotations

import torch
from torch import Tensor

from layout_server.operators.call import Call, Operator
from paddle_program.operators import written_places


def gather(call: Call) -> Tensor:
    (axis,) = call.numbers(2)
    return _take(call[0], call[1], axis)


def index_select(call: Call) -> Tensor:
    return _take(call[0], call[1], call.attribute("axis"))


def _take(values: Tensor, places: Tensor, axis: int) -> Tensor:
    """The shape of the places replaces the axis."""
    axis %= values.dim()
    taken = values.index_select(axis, places.reshape(-1))
    return taken.reshape([*values.shape[:axis], *places.shape, *values.shape[axis + 1 :]])


def gather_nd(call: Call) -> Tensor:
    return call[0][tuple(call[1].unbind(-1))]


def take_along_axis(call: Call) -> Tensor:
    """Places ``[..., n, ...]`` with the sizes of the values but along the axis."""
    return torch.gather(call[0], call.attribute("axis"), call[1])


def embedding(call: Call) -> Tensor:
    """Rows of input 1 by number; the row ``padding_idx`` counts as zeros (-1: none does)."""
    call.ignore("sparse")
    rows = _take(call[1], call[0], 0)
    padding = call.attribute("padding_idx")
    return rows if padding == -1 else rows * (call[0] != padding).unsqueeze(-1).to(rows.dtype)


def set_value(call: Call) -> Tensor:
    """Input 0 with the attribute's values in a slice; inputs 1 to 3 are starts, ends and steps."""
    values = torch.tensor(call.attribute("values"), dtype=call.element).reshape(call.attribute("shape"))
    return _write_slice(call, values, 1)


def set_value_with_tensor(call: Call) -> Tensor:
    return _write_slice(call, call[1].to(call.element), 2)


def _write_slice(call: Call, values: Tensor, first: int) -> Tensor:
    """A slice is written as a list of places."""
    shape = call[0].shape
    places = torch.from_numpy(written_places(call, shape, first))
    spread = values.expand(places.shape).reshape(-1)
    return call[0].reshape(-1).scatter(0, places.reshape(-1), spread).reshape(shape)


def index_put(call: Call) -> Tensor:
    """Input 1 lists the places: one mask of the whole tensor, or the places along each axis."""
    call.must("accumulate", False)
    places, shape = call.tensors(1), call[0].shape
    if len(places) == 1 and places[0].dtype == torch.bool:
        if places[0].shape != shape or call[2].numel() != 1:
            raise call.unknown("a mask of a part of the tensor, or with a value for each place")
        return torch.where(places[0], call.scalar(2, call[0].dtype), call[0])
    if len(places) != len(shape):
        raise call.unknown(f"places along {len(places)} of {len(shape)} axes")
    return call[0].index_put(tuple(places), call[2])


TABLE: dict[str, Operator] = {
    "embedding": embedding,
    "gather": gather,
    "gather_nd": gather_nd,
    "index_put": index_put,
    "index_select": index_select,
    "set_value_": set_value,
    "set_value_with_tensor_": set_value_with_tensor,
    "take_along_axis": take_along_axis,
}
