# SPDX-License-Identifier: Apache-2.0
"""One operation of a program as the function that computes it sees it: inputs, attributes, the type of the result."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from paddle_program.program import Operation, Type, UnknownProgram

Tensor = TypeVar("Tensor")


class Slot(Generic[Tensor]):
    """The tensor behind one or several values: an operation that writes in place changes it for all of them.

    ``known``: it is the same for all pages.
    """

    def __init__(self, value: Tensor | list[Tensor] | None, known: bool) -> None:
        self.value, self.known = value, known


class OperatorCall(abc.ABC, Generic[Tensor]):
    """Every attribute must be read: one that a function does not know could mean another result."""

    def __init__(self, operation: Operation, inputs: Sequence[Slot[Tensor]]) -> None:
        self._operation = operation
        self._values, self._known = [slot.value for slot in inputs], [slot.known for slot in inputs]
        self._unread = set(operation.attributes)

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, index: int) -> Tensor:
        """An input that is one tensor."""
        value = self._values[index]
        if value is None or isinstance(value, list):
            raise self.unknown(f"input {index} is {'missing' if value is None else 'a list'}")
        return value

    def has(self, index: int) -> bool:
        return index < len(self._values) and self._values[index] is not None

    def tensors(self, index: int) -> list[Tensor]:
        """An input that is a list of tensors."""
        value = self._values[index]
        if not isinstance(value, list):
            raise self.unknown(f"input {index} is not a list")
        return value

    @abc.abstractmethod
    def numbers(self, index: int) -> list[int]:
        """An input of sizes, axes or places: one tensor, or a list of tensors of one element. Raises UnknownProgram
        where a page would decide them."""

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
        """Attributes without influence on the values."""
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
