# SPDX-License-Identifier: Apache-2.0
"""One operation of a program as what computes it sees it: inputs, attributes, and the type of the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from paddle_program.program import Operation, Type, UnknownProgram

Tensor = TypeVar("Tensor")


class OperatorCall(Generic[Tensor]):
    """Every attribute must be read: one that a function does not know could mean another result."""

    def __init__(self, operation: Operation, values: Sequence[Tensor | list[Tensor] | None]) -> None:
        self._operation, self._values = operation, values
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


def place(operation: Operation) -> str:
    """How messages name an operation."""
    return f"operation {operation.name} (value {operation.outputs[0] if operation.outputs else '-'})"


def check_result(
    operation: Operation,
    kept: Type | tuple[Type, ...],
    value: Tensor | list[Tensor],
    seen: Callable[[Tensor], tuple[str, list[int]]],
) -> None:
    """Raise UnknownProgram unless a result has the type that the program gives for it.

    ``seen`` gives a tensor's NumPy element type and its sizes; a size of -1 is open and fits nothing.
    """
    if isinstance(kept, tuple) != isinstance(value, list):
        raise UnknownProgram(f"{place(operation)} gives a list where the program has none, or the reverse")
    if isinstance(value, list):
        assert isinstance(kept, tuple)
        if len(kept) != len(value):
            raise UnknownProgram(f"{place(operation)} gives {len(value)} tensors; the program has {len(kept)}")
        for single, part in zip(kept, value):
            check_result(operation, single, part, seen)
        return
    assert isinstance(kept, Type)
    element, sizes = seen(value)
    fits = len(sizes) == len(kept.shape) and all(
        size >= 0 and wanted in (-1, size) for wanted, size in zip(kept.shape, sizes)
    )
    if not fits or element != kept.element:
        raise UnknownProgram(
            f"{place(operation)} became {element} {sizes}; the program has {kept.element} {list(kept.shape)}"
        )
