# SPDX-License-Identifier: Apache-2.0
"""The matrix products that no implementation can do without, alone: what the encode time is measured against.

Patch embedding and linear layers of tower and projector over all patches (in passes of the size the tower uses, since
cache-sized products are the faster ones), and the two products of attention per crop and head. No bias, no activation,
no softmax. With VLM_PRECISION=int8 the tower's linear layers are products of integers.
On a CPU each kind of product is timed with every kernel that torch offers for it and the faster one counts.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from .crops import PATCH
from .inputs import HEADS, HIDDEN, INTERMEDIATE, MERGED, TEXT

HEAD_DIM = HIDDEN // HEADS
# (features in, features out) of a layer
LAYER = ((HIDDEN, 3 * HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, INTERMEDIATE), (INTERMEDIATE, HIDDEN))
EMBEDDING = ((3 * PATCH**2, HIDDEN),)
PROJECTOR = ((MERGED, MERGED), (MERGED, TEXT))


def seconds(
    call: Callable[[], object], synchronise: Callable[[], None], clock: Callable[[], float], repeats: int
) -> float:
    """Median of ``repeats`` runs after a first one: an encode is timed once a round, in ordinary conditions too."""
    call()
    times = []
    for _ in range(repeats):
        synchronise()
        began = clock()
        call()
        synchronise()
        times.append(clock() - began)
    return statistics.median(times)


def linear_kernels(x: Tensor, weight: Tensor) -> list[Callable[[], object]]:
    kernels: list[Callable[[], object]] = [lambda: F.linear(x, weight)]
    if x.device.type == "cpu" and hasattr(torch.ops.mkldnn, "_reorder_linear_weight"):
        packed = torch.ops.mkldnn._reorder_linear_weight(weight, len(x))
        kernels.append(lambda: torch.ops.mkldnn._linear_pointwise(x, packed, None, "none", [], ""))
    return kernels


def integer_kernels(rows: int, before: int, after: int) -> list[Callable[[], object]]:
    """The product alone, of numbers that are integers already."""
    from vlm_models.int8 import multiply

    x = torch.randint(256, (rows, before), dtype=torch.uint8)
    packed = torch.ops.onednn.qlinear_prepack(torch.randint(-127, 128, (after, before), dtype=torch.int8), None)
    scales, zero_points = torch.ones(after, dtype=torch.float32), torch.zeros(after, dtype=torch.int32)
    return [lambda: multiply(x, packed, scales, zero_points)]


def attention_kernels(length: int, dtype: torch.dtype, device: torch.device) -> list[list[Callable[[], object]]]:
    """Both products of one crop: a call for each head, whose operands stay in the cache, and one over all heads."""
    query, key, value = torch.randn(3, HEADS, length, HEAD_DIM, device=device).to(dtype).unbind()
    turned = key.transpose(1, 2)
    rows = max(1, min(length, (1 << 22) // length))
    part = torch.rand(rows, length, device=device).to(dtype)

    def each(product: Callable[[int, slice], Tensor]) -> Callable[[], object]:
        def run() -> None:
            for head in range(HEADS):
                for first in range(0, length, rows):
                    product(head, slice(first, min(first + rows, length)))

        return run

    scores = [each(lambda head, span: query[head, span] @ turned[head])]
    values = [each(lambda head, span: part[: span.stop - span.start] @ value[head])]
    if HEADS * length**2 * dtype.itemsize < 1 << 30:
        whole = torch.rand(HEADS, length, length, device=device).to(dtype)
        scores.append(lambda: torch.bmm(query, turned))
        values.append(lambda: torch.bmm(whole, value))
    return [scores, values]


def roof(
    lengths: list[int],
    layers: int,
    rows: int,
    dtype: torch.dtype,
    device: torch.device,
    synchronise: Callable[[], None],
    clock: Callable[[], float],
    repeats: int = 5,
) -> dict[str, float]:
    """Seconds for all products of one encode: {"linear": ..., "attention": ...}.

    Args:
        lengths: patches of each crop.
        rows: patches of a pass.
    """
    from vlm_models.settings import in_int8

    total, linear, attention = sum(lengths), 0.0, 0.0
    rows = min(rows, total)
    integers = in_int8(os.environ)

    def best(kernels: list[Callable[[], object]]) -> float:
        return min(seconds(kernel, synchronise, clock, repeats) for kernel in kernels)

    with torch.inference_mode():
        for shapes, count, times in (
            (EMBEDDING, rows, total / rows),
            (LAYER, rows, layers * total / rows),
            (PROJECTOR, rows // 4, total / rows),
        ):
            for before, after in shapes:
                if integers and shapes is LAYER:
                    from vlm_models.int8 import ROWS

                    linear += times * rows / ROWS * best(integer_kernels(ROWS, before, after))
                    continue
                x = torch.randn(count, before, device=device).to(dtype)
                linear += times * best(linear_kernels(x, torch.randn(after, before, device=device).to(dtype)))
        for length in sorted(set(lengths)):
            products = attention_kernels(length, dtype, device)
            attention += layers * lengths.count(length) * sum(best(kernels) for kernels in products)
    return {"linear": linear, "attention": attention}
