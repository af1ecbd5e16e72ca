# SPDX-License-Identifier: Apache-2.0
"""Operations that make values from nothing or from a shape, and those that move values: slices, joining, dividing."""

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


def reshape(call: Call) -> Tensor:
    """0 keeps a size, -1 takes what is left."""
    sizes = [call[0].shape[axis] if size == 0 else size for axis, size in enumerate(call.numbers(1))]
    return call[0].reshape(sizes)


def flatten(call: Call) -> Tensor:
    return torch.flatten(call[0], call.attribute("start_axis"), call.attribute("stop_axis"))


def transpose(call: Call) -> Tensor:
    return call[0].permute(call.attribute("perm"))


def unsqueeze(call: Call) -> Tensor:
    """The axes are the result's."""
    values = call[0]
    count = values.dim() + len(call.numbers(1))
    for axis in sorted(axis % count for axis in call.numbers(1)):
        values = values.unsqueeze(axis)
    return values


def squeeze(call: Call) -> Tensor:
    """Without axes, all of size 1. An axis of another size stays."""
    return torch.squeeze(call[0], tuple(call.numbers(1) or range(call[0].dim())))


def expand(call: Call) -> Tensor:
    """-1 keeps a size."""
    sizes = [max(size, 1) for size in call.numbers(1)]
    return call[0].expand(torch.broadcast_shapes(call[0].shape, tuple(sizes)))


def expand_as(call: Call) -> Tensor:
    """Input 1 has the shape; the attribute repeats it."""
    call.ignore("target_shape")
    return call[0].expand(torch.broadcast_shapes(call[0].shape, call[1].shape))


def broadcast_tensors(call: Call) -> list[Tensor]:
    return list(torch.broadcast_tensors(*call.tensors(0)))


def tile(call: Call) -> Tensor:
    return torch.tile(call[0], call.numbers(1))


def flip(call: Call) -> Tensor:
    return torch.flip(call[0], call.attribute("axis"))


def slice_(call: Call) -> Tensor:
    """``infer_flags`` say which ends were known when the program was made."""
    call.ignore("infer_flags")
    axes = call.attribute("axes")
    part = _cut(call[0], axes, call.numbers(1), call.numbers(2), [1] * len(axes))
    gone = call.attribute("decrease_axis")
    return torch.squeeze(part, tuple(gone)) if gone else part


def strided_slice(call: Call) -> Tensor:
    steps = call.numbers(3)
    if min(steps) < 1:
        raise call.unknown(f"steps {steps}; known: forward ones")
    return _cut(call[0], call.attribute("axes"), call.numbers(1), call.numbers(2), steps)


def _cut(values: Tensor, axes: list[int], starts: list[int], stops: list[int], steps: list[int]) -> Tensor:
    """As Python slices: negative places count from the end, ends beyond the axis are its end."""
    for axis, start, stop, step in zip(axes, starts, stops, steps, strict=True):
        parts = [slice(None)] * values.dim()
        parts[axis] = slice(start, stop, step)
        values = values[tuple(parts)]
    return values


def concat(call: Call) -> Tensor:
    (axis,) = call.numbers(1)
    return torch.cat(call.tensors(0), axis)


def stack(call: Call) -> Tensor:
    return torch.stack(call.tensors(0), call.attribute("axis"))


def split(call: Call) -> list[Tensor]:
    """-1 takes what is left."""
    (axis,) = call.numbers(2)
    sizes = call.numbers(1)
    left = call[0].shape[axis] - sum(size for size in sizes if size >= 0)
    return list(torch.split(call[0], [left if size < 0 else size for size in sizes], axis))


def split_with_num(call: Call) -> list[Tensor]:
    (axis,) = call.numbers(1)
    return list(torch.split(call[0], call[0].shape[axis] // call.attribute("num"), axis))


def unbind(call: Call) -> list[Tensor]:
    return list(torch.unbind(call[0], call.attribute("axis")))


def lower(call: Call) -> Tensor:
    return torch.tril(call[0], call.attribute("diagonal"))


def upper(call: Call) -> Tensor:
    return torch.triu(call[0], call.attribute("diagonal"))


TABLE: dict[str, Operator] = {
    "full": full,
    "full_int_array": full_int_array,
    "full_like": full_like,
    "full_with_tensor": full_with_tensor,
    "assign_value_": assign_value,
    "arange": arange,
    "shape64": shape64,
    "meshgrid": meshgrid,
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
