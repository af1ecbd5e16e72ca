# SPDX-License-Identifier: Apache-2.0
"""One operation as its translator sees it: inputs, attributes, and the type of the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from openvino import opset15 as nodes

from paddle_program.program import Operation, Type, UnknownProgram

Output = Any  # openvino.Output, whose methods its stubs do not know all of
Value = Output | list[Output]
Translator = Callable[["Call"], Any]


class Call:
    """Every attribute must be read: one that a translator does not know could mean another result."""

    def __init__(self, operation: Operation, values: list[Value | None]) -> None:
        self._operation = operation
        self._values = values
        self._unread = set(operation.attributes)

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, index: int) -> Output:
        """An input that is one tensor."""
        value = self._values[index]
        if value is None or isinstance(value, list):
            raise self.unknown(f"input {index} is {'missing' if value is None else 'a list'}")
        return value

    def has(self, index: int) -> bool:
        return index < len(self._values) and self._values[index] is not None

    def tensors(self, index: int) -> list[Output]:
        """An input that is a list of tensors."""
        value = self._values[index]
        if not isinstance(value, list):
            raise self.unknown(f"input {index} is not a list")
        return value

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
        """The same where the values must be known now."""
        sizes = self.sizes(index)
        if not is_constant(sizes):
            raise self.unknown(f"input {index} is computed; known where it is constant")
        return [int(number) for number in values_of(sizes)]

    def attribute(self, name: str) -> Any:
        if name not in self._operation.attributes:
            raise self.unknown(f"attribute {name} is missing")
        self._unread.discard(name)
        return self._operation.attributes[name]

    def must(self, name: str, *allowed: Any) -> Any:
        """An attribute that has to have one of these values."""
        value = self.attribute(name)
        if value not in allowed:
            raise self.unknown(f"{name}={value!r}; known: {', '.join(map(repr, allowed))}")
        return value

    def ignore(self, *names: str) -> None:
        """Attributes that do not bear on the values."""
        self._unread.difference_update(names)

    @property
    def type(self) -> Type:
        """The first result's."""
        kept = self._operation.types[0]
        assert isinstance(kept, Type)
        return kept

    def check_all_read(self) -> None:
        if self._unread:
            raise self.unknown(f"attribute {', '.join(sorted(self._unread))} is not known")

    def unknown(self, what: str) -> UnknownProgram:
        return UnknownProgram(f"operation {self._operation.name}: {what}")


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
