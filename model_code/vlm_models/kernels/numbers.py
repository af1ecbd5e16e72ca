# SPDX-License-Identifier: Apache-2.0
"""bfloat16 and powers of two for Numba, which knows neither: a few LLVM instructions each, so that loops vectorise.

A bfloat16 is the upper half of a float32, here a uint16. Values are finite.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

I8, I16, I32, F32 = ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.FloatType()


def instruction(result: Any, *parameters: Any) -> Callable[[Callable[..., Any]], Any]:
    """Decorator: what a function of LLVM's builder and values builds, as a function of Numba's types."""

    def decorated(build: Callable[..., Any]) -> Any:
        @intrinsic
        @wraps(build)  # Numba takes the parameters' names from it
        def typed(typing: Any, *values: Any) -> Any:
            def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                return build(builder, *arguments)

            return result(*parameters), code

        return typed

    return decorated


@instruction(types.float32, types.uint16)
def widen(builder: Any, bits: Any) -> Any:
    """bfloat16 -> float32."""
    return builder.bitcast(builder.shl(builder.zext(bits, I32), I32(16)), F32)


@instruction(types.uint16, types.float32)
def narrow(builder: Any, value: Any) -> Any:
    """float32 -> bfloat16, to the nearest, ties to even."""
    bits = builder.bitcast(value, I32)
    odd = builder.and_(builder.lshr(bits, I32(16)), I32(1))
    rounded = builder.add(builder.add(bits, I32(0x7FFF)), odd)
    return builder.trunc(builder.lshr(rounded, I32(16)), I16)


def in_order(builder: Any, bits: Any) -> Any:
    """Magnitude bits of negative numbers turned over; its own inverse."""
    return builder.xor(bits, builder.and_(builder.ashr(bits, I16(15)), I16(0x7FFF)))


# bfloat16 -> int16 that compares like it, and back. Integers' maxima vectorise, and twice as many fit a register.
ordered = instruction(types.int16, types.uint16)(in_order)
unordered = instruction(types.uint16, types.int16)(in_order)


@instruction(types.int16, types.int16, types.int16)
def larger(builder: Any, left: Any, right: Any) -> Any:
    """Maximum of two int16, which Numba's own would widen to int64."""
    return builder.select(builder.icmp_signed(">", left, right), left, right)


@instruction(types.int32, types.float32)
def nearest(builder: Any, value: Any) -> Any:
    """float32 within +-2^22 -> the nearest integer, int32: adding 1.5 * 2^23 leaves it in the lowest bits."""
    shifted = builder.fadd(value, ir.Constant(F32, 1.5 * 2**23))
    return builder.sub(builder.bitcast(shifted, I32), I32(0x4B400000))


@instruction(types.float32, types.int32)
def real(builder: Any, value: Any) -> Any:
    """int32 -> float32."""
    return builder.sitofp(value, F32)


@instruction(types.float32, types.float32, types.int32)
def times_power_of_two(builder: Any, value: Any, power: Any) -> Any:
    """float32 * 2^int32, by adding to the exponent; the result is a normal number."""
    return builder.bitcast(builder.add(builder.bitcast(value, I32), builder.shl(power, I32(23))), F32)


@instruction(types.int32, types.float32)
def magnitude(builder: Any, value: Any) -> Any:
    """float32 -> int32 that compares like its absolute value. Integers' maxima vectorise."""
    return builder.and_(builder.bitcast(value, I32), I32(0x7FFFFFFF))


@instruction(types.float32, types.int32)
def of_magnitude(builder: Any, bits: Any) -> Any:
    """The inverse of :func:`magnitude` for numbers from 0 on."""
    return builder.bitcast(bits, F32)


def pointer(to: Any, element: Any) -> Any:
    """address (int64) -> pointer to ``to``, in LLVM's words ``element``."""
    cast = instruction(types.CPointer(to), types.int64)
    return cast(lambda builder, address: builder.inttoptr(address, element.as_pointer()))


bfloat16_at, float32_at, uint8_at = pointer(types.uint16, I16), pointer(types.float32, F32), pointer(types.uint8, I8)
