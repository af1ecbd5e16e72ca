# SPDX-License-Identifier: Apache-2.0
"""One operation as its function sees it: inputs, attributes, and the type of the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from paddle_program.program import Operation, Type, UnknownProgram

Value = Tensor | list[Tensor]
Operator = Callable[["Call"], Any]


class Call:
    """Every attribute must be read: one that a function does not know could mean another result.

    ``known`` tells of each input whether it is the same for all pages, so that its numbers may be looked at.
    """

    def __init__(self, operation: Operation, values: Sequence[Value | None], known: Sequence[bool]) -> None:
        self._operation, self._values, self._known = operation, values, known
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

    def optional(self, index: int) -> Tensor | None:
        return self[index] if self.has(index) else None

    def tensors(self, index: int) -> list[Tensor]:
        """An input that is a list of tensors."""
        value = self._values[index]
        if not isinstance(value, list):
            raise self.unknown(f"input {index} is not a list")
        return value

    def numbers(self, index: int) -> list[int]:
        """An input of sizes, axes or places: one tensor, or a list of tensors of one element."""
        if not self._known[index]:
            raise self.unknown(f"input {index} depends on the page; expected sizes that are the same for all")
        value = self._values[index]
        parts = value if isinstance(value, list) else [self[index]]
        return [int(number) for part in parts for number in part.reshape(-1).tolist()]

    def scalar(self, index: int, element: torch.dtype) -> Tensor:
        """An input of one element as a tensor without axes."""
        return self[index].reshape(()).to(element)

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

    @property
    def element(self) -> torch.dtype:
        """The first result's."""
        return element_of(self.type.element)

    def check_all_read(self) -> None:
        if self._unread:
            raise self.unknown(f"attribute {', '.join(sorted(self._unread))} is not known")

    def unknown(self, what: str) -> UnknownProgram:
        return UnknownProgram(f"operation {self._operation.name}: {what}")


def element_of(name: str) -> torch.dtype:
    """NumPy's name of a type of elements as torch's."""
    found = getattr(torch, name)
    assert isinstance(found, torch.dtype), name
    return found
