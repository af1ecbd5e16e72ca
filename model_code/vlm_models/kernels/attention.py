# SPDX-License-Identifier: Apache-2.0
"""The steps of attention between its matrix products, in bfloat16. L: patches of an image, H: heads, D: features of a
head.

Each kernel takes its data from memory once and computes in float32.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import carray, njit

from .numbers import (
    bfloat16_at,
    float32_at,
    larger,
    narrow,
    nearest,
    ordered,
    real,
    times_power_of_two,
    unordered,
    widen,
)
from .openmp import Kernel

# Sums may be taken in any order, products and sums together: without that no loop of sums vectorises.
compiled = njit(fastmath={"reassoc", "contract", "nsz", "arcp"}, error_model="numpy")

LOG2_E = np.float32(1.4426950408889634)
# 2^f for f in [-0.5, 0.5]: least squares of the relative error at Chebyshev nodes; it is below 8e-5, and half a unit
# in the last place of bfloat16 is 4e-3.
C0, C1, C2, C3 = (np.float32(c) for c in (0.99992894, 0.69327624, 0.24260405, 0.05508868))
# Smaller exponents would give denormal float32 numbers. They add nothing to a sum that contains a 1.
LEAST = np.float32(-125.0)


@njit(inline="always")  # as if written where it is called: the loops then compile to the same instructions
def exp2(power: Any) -> Any:
    """2^power, for powers from LEAST to 126."""
    whole = nearest(power)
    f = power - real(whole)
    return times_power_of_two(C0 + f * (C1 + f * (C2 + f * C3)), whole)


@compiled
def exponentials_of_row(row: Any) -> Any:
    """exp(x - max) in place of each x; returns their sum."""
    top = ordered(row[0])
    for i in range(row.shape[0]):
        top = larger(top, ordered(row[i]))
    most = widen(unordered(top))
    total = np.float32(0)
    for i in range(row.shape[0]):
        # The difference first: the largest scores times log2(e) overflow.
        power = (widen(row[i]) - most) * LOG2_E
        value = exp2(LEAST if power < LEAST else power)
        total += value
        row[i] = narrow(value)
    return total


@compiled
def exponentials_body(a: Any, thread: int, threads: int) -> None:
    rows, length = a[2], a[3]
    scores, sums = carray(bfloat16_at(a[0]), (rows, length)), carray(float32_at(a[1]), (rows,))
    for row in range(rows * thread // threads, rows * (thread + 1) // threads):
        sums[row] = exponentials_of_row(scores[row])


@compiled
def divide_body(a: Any, thread: int, threads: int) -> None:
    group, rows, size, stride = a[3], a[4], a[5], a[6]
    heads, sums = carray(bfloat16_at(a[0]), (group, rows, size)), carray(float32_at(a[1]), (group, rows))
    out = carray(bfloat16_at(a[2]), (rows, stride))
    for row in range(rows * thread // threads, rows * (thread + 1) // threads):
        for head in range(group):
            factor = np.float32(1) / sums[head, row]
            for i in range(size):
                out[row, head * size + i] = narrow(widen(heads[head, row, i]) * factor)


@cache
def exponentials() -> Kernel:
    """(scores, sums, rows, L): scores [rows, L] bfloat16 become exp(score - the row's largest), sums [rows] float32."""
    return Kernel(exponentials_body)


@cache
def divide() -> Kernel:
    """(heads, sums, out, G, rows, D, stride): out[row, g * D + i] = heads[g, row, i] / sums[g, row].

    heads [G, rows, D] and out, bfloat16, with ``stride`` features from one row of out to the next; sums float32.
    """
    return Kernel(divide_body)


@cache
def split_heads(heads: int, size: int) -> Kernel:
    """(qkv, cos, sin, out, L): queries, keys and values of an image head by head, queries and keys turned.

    qkv [L, 3 * heads, size] and out [3, heads, L, size], bfloat16; cos and sin [L, size] float32, both halves equal.
    Rotation in half-split form; queries are multiplied by size^-0.5 before they are rounded.
    """
    half, scale, wide = size // 2, np.float32(size**-0.5), 3 * heads * size

    @compiled
    def body(a: Any, thread: int, threads: int) -> None:
        length = a[4]
        qkv, out = carray(bfloat16_at(a[0]), (length, wide)), carray(bfloat16_at(a[3]), (3 * heads, length, size))
        cos, sin = carray(float32_at(a[1]), (length, size)), carray(float32_at(a[2]), (length, size))
        for patch in range(length * thread // threads, length * (thread + 1) // threads):
            for head in range(2 * heads):
                factor = scale if head < heads else np.float32(1)
                start = head * size
                for i in range(half):
                    first, second = widen(qkv[patch, start + i]), widen(qkv[patch, start + half + i])
                    c, s = cos[patch, i] * factor, sin[patch, i] * factor
                    out[head, patch, i] = narrow(first * c - second * s)
                    out[head, patch, half + i] = narrow(second * c + first * s)
            for head in range(2 * heads, 3 * heads):
                for i in range(size):
                    out[head, patch, i] = qkv[patch, head * size + i]

    return Kernel(body)
