# SPDX-License-Identifier: Apache-2.0
"""One operation as its translator sees it: inputs, attributes, and the type of the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from openvino import opset15 as nodes

from paddle_program.call import OperatorCall

Output = Any  # openvino.Output, whose methods its stubs do not know all of
Translator = Callable[["Call"], Any]


class Call(OperatorCall[Output]):
    """With sizes that are constants or computed."""

    def sizes(self, index: int) -> Output:
        """An input of sizes, axes or places, int64 ``[n]``: one tensor, or a list of tensors of one element."""
        value = self._values[index]
        if not isinstance(value, list):
            return vector(self[index])
        parts = [vector(part) for part in value]
        if all(is_constant(part) for part in parts):
            return constant(np.concatenate([values_of(part) for part in parts]), "int64")
        return nodes.concat(parts, 0).output(0)

    def numbers(self, index: int) -> list[int]:
        sizes = self.sizes(index)
        if not is_constant(sizes):
            raise self.unknown(f"input {index} is computed; known where it is constant")
        return [int(number) for number in values_of(sizes)]


def is_constant(value: Output) -> bool:
    return value.get_node().get_type_name() == "Constant"


def values_of(value: Output) -> np.ndarray:
    """Of a constant."""
    return np.array(value.get_node().data)


def vector(value: Output) -> Output:
    """int64 ``[n]``; of a constant, a constant."""
    if is_constant(value):
        return constant(values_of(value).reshape(-1), "int64")
    return nodes.reshape(cast(value, "int64"), constant([-1], "int64"), False).output(0)


def scalar(value: Output, element: str) -> Output:
    """A tensor of one element as a number of type ``element``."""
    if is_constant(value):
        return constant(values_of(value).reshape(()), element)
    return nodes.reshape(cast(value, element), constant([], "int64"), False).output(0)


def shape_of(value: Output) -> list[int]:
    return [int(size) for size in value.get_shape()]


def constant(values: Any, element: str) -> Output:
    return nodes.constant(np.asarray(values, dtype=element)).output(0)


def cast(value: Output, element: str) -> Output:
    """Nothing to do where it is of that type already."""
    if value.get_element_type().to_dtype() == np.dtype(element):
        return value
    if is_constant(value):
        return constant(values_of(value), element)
    return nodes.convert(value, np.dtype(element).type).output(0)


def element_of(value: Output) -> str:
    return str(value.get_element_type().to_dtype().name)
