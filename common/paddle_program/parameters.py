# SPDX-License-Identifier: Apache-2.0
"""The values of a program's parameters: ``inference.pdiparams``.

Tensors follow each other in the order of the parameters' names. One of them is, little-endian: uint32 0; uint64 number
of levels of detail (0 here); uint32 0; int32 length of its description; the description; its elements in C order. The
description is a protobuf message: field 1 the type of the elements, field 2 one size of the shape, repeated.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

ELEMENTS = {0: "bool", 2: "int32", 3: "int64", 5: "float32", 6: "float64", 20: "uint8", 21: "int8"}
HEAD = struct.Struct("<IQIi")


class BadParameters(Exception):
    """The file does not fit the program; the text says where."""


def read_parameters(path: Path, types: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The parameters named in ``types`` (name -> Type), as views of the file. Raises BadParameters, OSError."""
    file: Any = np.memmap(path, np.uint8, mode="r") if path.stat().st_size else np.empty(0, np.uint8)
    values, at = {}, 0
    for name in sorted(types):
        try:
            version, levels, tensor_version, length = HEAD.unpack_from(file, at)
            at += HEAD.size
            element, shape = _describe(bytes(file[at : at + length]))
            at += length
            size = math.prod(shape) * np.dtype(ELEMENTS[element]).itemsize
            value = file[at : at + size].view(ELEMENTS[element]).reshape(shape)
        except (struct.error, ValueError, KeyError, IndexError) as exc:
            raise BadParameters(f"{path}: no tensor at byte {at}, where {name} should be ({exc})") from exc
        at += size
        wanted = (types[name].element, types[name].shape)
        if version or levels or tensor_version or (str(value.dtype), value.shape) != wanted:
            raise BadParameters(f"{path}: {name} is {value.dtype} {list(value.shape)}; the program wants {wanted}")
        values[name] = value
    if at != file.size:
        raise BadParameters(f"{path} has {file.size} bytes; the program's parameters end at {at}")
    return values


def _describe(message: bytes) -> tuple[int, tuple[int, ...]]:
    element, shape, at = -1, [], 0
    while at < len(message):
        tag, at = _varint(message, at)
        value, at = _varint(message, at)
        if tag == 0x08:
            element = value
        elif tag == 0x10:
            shape.append(value)
        else:
            raise ValueError(f"tag {tag} in a tensor's description")
    return element, tuple(shape)


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if byte < 0x80:
            return value, at
