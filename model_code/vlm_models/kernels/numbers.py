# SPDX-License-Identifier: Apache-2.0
"""bfloat16 and powers of two for Numba, which knows neither: a few LLVM instructions each, so that loops vectorise.

A bfloat16 is the upper half of a float32, here a uint16. Values are finite.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

I16, I32, F32 = ir.IntType(16), ir.IntType(32), ir.FloatType()


@intrinsic
def widen(typing: Any, value: Any) -> Any:
    """bfloat16 -> float32."""

    def instructions(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(builder.shl(builder.zext(arguments[0], I32), I32(16)), F32)

    return types.float32(types.uint16), instructions


@intrinsic
def narrow(typing: Any, value: Any) -> Any:
    """float32 -> bfloat16, to the nearest, ties to even."""

    def instructions(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bits = builder.bitcast(arguments[0], I32)
        odd = builder.and_(builder.lshr(bits, I32(16)), I32(1))
        rounded = builder.add(builder.add(bits, I32(0x7FFF)), odd)
        return builder.trunc(builder.lshr(rounded, I32(16)), I16)

    return types.uint16(types.float32), instructions


@intrinsic
def ordered(typing: Any, value: Any) -> Any:
    """bfloat16 -> int16 that compares like it. Integers' maxima vectorise, and twice as many fit a register."""

    def instructions(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return in_order(builder, arguments[0])

    return types.int16(types.uint16), instructions


@intrinsic
def unordered(typing: Any, value: Any) -> Any:
    """The inverse of :func:`ordered`."""

    def instructions(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return in_order(builder, arguments[0])

    return types.uint16(types.int16), instructions


def in_order(builder: Any, bits: Any) -> Any:
    """Magnitude bits of negative numbers turned over; its own inverse."""
    return builder.xor(bits, builder.and_(builder.ashr(bits, I16(15)), I16(0x7FFF)))


@intrinsic
def larger(typing: Any, left: Any, right: Any) -> Any:
    """Maximum of two int16, which Numba's own would widen to int64."""

    def instructions(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.select(builder.icmp_signed(">", *arguments), *arguments)

    return types.int16(types.int16, types.int16), instructions


@intrinsic
def nearest(typing: Any, value: Any) -> Any:
    """float32 within +-2^22 -> the nearest integer, int32: adding 1.5 * 2^23 leaves it in the lowest bits."""

    def instructions(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        shifted = builder.fadd(arguments[0], ir.Constant(F32, 1.5 * 2**23))
        return builder.sub(builder.bitcast(shifted, I32), I32(0x4B400000))

    return types.int32(types.float32), instructions


@intrinsic
def real(typing: Any, value: Any) -> Any:
    """int32 -> float32."""

    def instructions(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.sitofp(arguments[0], F32)

    return types.float32(types.int32), instructions


@intrinsic
def times_power_of_two(typing: Any, value: Any, power: Any) -> Any:
    """float32 * 2^int32, by adding to the exponent; the result is a normal number."""

    def instructions(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bits = builder.add(builder.bitcast(arguments[0], I32), builder.shl(arguments[1], I32(23)))
        return builder.bitcast(bits, F32)

    return types.float32(types.float32, types.int32), instructions


@intrinsic
def magnitude(typing: Any, value: Any) -> Any:
    """float32 -> int32 that compares like its absolute value. Integers' maxima vectorise."""

    def instructions(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.and_(builder.bitcast(arguments[0], I32), I32(0x7FFFFFFF))

    return types.int32(types.float32), instructions


@intrinsic
def of_magnitude(typing: Any, value: Any) -> Any:
    """The inverse of :func:`magnitude` for numbers from 0 on."""

    def instructions(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], F32)

    return types.float32(types.int32), instructions


def pointer(to: Any) -> Any:
    """address (int64) -> pointer to ``to``."""

    @intrinsic
    def cast(typing: Any, address: Any) -> Any:
        signature = types.CPointer(to)(types.int64)

        def instructions(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

        return signature, instructions

    return cast


bfloat16_at, float32_at, uint8_at = pointer(types.uint16), pointer(types.float32), pointer(types.uint8)
