# SPDX-License-Identifier: Apache-2.0
"""What stands around products of 8-bit integers. R: rows, K: features before a product, N: behind it.

A row of activations is its integers, -127 to 127, times its scale, a float32. The integers are kept as bytes, moved by
ZERO: oneDNN has a fast program for unsigned bytes times signed ones, and for no others. A product's sums come as
float32, the weights' scales already in them; here they get the rows' scales, the bias, and what follows, in one pass
over the data.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch
from numba import carray, njit

from .attention import LEAST, LOG2_E, compiled, exp2
from .numbers import bfloat16_at, float32_at, magnitude, narrow, nearest, of_magnitude, uint8_at, widen
from .openmp import Kernel

LARGEST = np.float32(127)
ZERO = 128
# A row of smaller numbers counts as zeros: its scale's inverse would not be finite.
SMALLEST = np.float32(1e-30)
# GELU(x) by tanh is x / (1 + exp(-2 z)) with z = sqrt(2 / pi) * (x + 0.044715 x^3).
GELU_SLOPE = np.float32(-2 * (2 / np.pi) ** 0.5) * LOG2_E
GELU_CUBE = np.float32(0.044715)
MOST = np.float32(125.0)


@njit
def unchanged(value: Any) -> Any:
    return value


# Type of a layer's numbers -> how an array of it is found, a number of it read as float32, and written.
ELEMENTS = {torch.bfloat16: (bfloat16_at, widen, narrow), torch.float32: (float32_at, unchanged, unchanged)}


@compiled
def scale_and_inverse(most: Any) -> Any:
    """Of a row, from the magnitude of its largest number; both 0 for a row of zeros."""
    largest = of_magnitude(most)
    if largest < SMALLEST:
        return np.float32(0), np.float32(0)
    return largest / LARGEST, LARGEST / largest


@compiled
def gelu(x: Any) -> Any:
    power = GELU_SLOPE * (x + GELU_CUBE * x * x * x)
    power = LEAST if power < LEAST else power
    return x / (np.float32(1) + exp2(MOST if power > MOST else power))


@compiled
def gelu_quantise_body(a: Any, thread: int, threads: int) -> None:
    rows, size = a[5], a[6]
    sums, scales = carray(float32_at(a[0]), (rows, size)), carray(float32_at(a[1]), (rows,))
    bias = carray(float32_at(a[2]), (size,))
    out, steps = carray(uint8_at(a[3]), (rows, size)), carray(float32_at(a[4]), (rows,))
    for row in range(rows * thread // threads, rows * (thread + 1) // threads):
        scale, most = scales[row], np.int32(0)
        for i in range(size):
            value = gelu(sums[row, i] * scale + bias[i])
            sums[row, i] = value
            bits = magnitude(value)
            most = bits if bits > most else most
        steps[row], inverse = scale_and_inverse(most)
        for i in range(size):
            out[row, i] = nearest(sums[row, i] * inverse) + ZERO


@cache
def gelu_quantise() -> Kernel:
    """(sums, scales, bias, out, out's scales, R, N): GELU (by tanh) of a product, as integers for the next one.

    sums [R, N], both scales [R] and bias [N] float32; out [R, N] uint8. The sums are overwritten.
    """
    return Kernel(gelu_quantise_body)


@cache
def quantise(dtype: torch.dtype) -> Kernel:
    """(x, out, scales, R, K): x [R, K] of ``dtype``, bfloat16 or float32, as integers [R, K] uint8 and scales [R]."""
    at, load, _ = ELEMENTS[dtype]

    @compiled
    def body(a: Any, thread: int, threads: int) -> None:
        rows, size = a[3], a[4]
        x, out = carray(at(a[0]), (rows, size)), carray(uint8_at(a[1]), (rows, size))
        scales = carray(float32_at(a[2]), (rows,))
        for row in range(rows * thread // threads, rows * (thread + 1) // threads):
            most = np.int32(0)
            for i in range(size):
                bits = magnitude(load(x[row, i]))
                most = bits if bits > most else most
            scales[row], inverse = scale_and_inverse(most)
            for i in range(size):
                out[row, i] = nearest(load(x[row, i]) * inverse) + ZERO

    return Kernel(body)


@cache
def finish(dtype: torch.dtype) -> Kernel:
    """(sums, scales, bias, out, R, N): out = sums * scales + bias.

    sums [R, N], scales [R] and bias [N] float32; out [R, N] of ``dtype``, bfloat16 or float32.
    """
    at, _, store = ELEMENTS[dtype]

    @compiled
    def body(a: Any, thread: int, threads: int) -> None:
        rows, size = a[4], a[5]
        sums, scales = carray(float32_at(a[0]), (rows, size)), carray(float32_at(a[1]), (rows,))
        bias, out = carray(float32_at(a[2]), (size,)), carray(at(a[3]), (rows, size))
        for row in range(rows * thread // threads, rows * (thread + 1) // threads):
            scale = scales[row]
            for i in range(size):
                out[row, i] = store(sums[row, i] * scale + bias[i])

    return Kernel(body)


@cache
def finish_add(dtype: torch.dtype) -> Kernel:
    """(sums, scales, bias, residual, out, R, N): as :func:`finish`, plus residual [R, N] of ``dtype``."""
    at, load, store = ELEMENTS[dtype]

    @compiled
    def body(a: Any, thread: int, threads: int) -> None:
        rows, size = a[5], a[6]
        sums, scales = carray(float32_at(a[0]), (rows, size)), carray(float32_at(a[1]), (rows,))
        bias, residual = carray(float32_at(a[2]), (size,)), carray(at(a[3]), (rows, size))
        out = carray(at(a[4]), (rows, size))
        for row in range(rows * thread // threads, rows * (thread + 1) // threads):
            scale = scales[row]
            for i in range(size):
                out[row, i] = store(sums[row, i] * scale + bias[i] + load(residual[row, i]))

    return Kernel(body)
