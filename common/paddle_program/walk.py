# SPDX-License-Identifier: Apache-2.0
"""A program's operations, one after the other, in any library of tensors.

The result of every operation is compared with the type and shape that the program gives for it. So a use of an
operation that we have not seen is an error, not a wrong value.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Generic

from paddle_program.call import OperatorCall, Slot, Tensor
from paddle_program.program import Operation, Program, Type, UnknownProgram

#: The name of an operation that writes in place ends with "_". These write to inputs that nobody reads.
ELSEWHERE = {"batch_norm_"}
#: Of their inputs only the shape counts, so their results are known before a page comes.
OF_SHAPES = {"shape64", "full_like"}

Replace = Callable[[Operation, list[Any]], list[Any]]
"""An operation and its results -> what takes the place of these."""


class Walk(abc.ABC, Generic[Tensor]):
    """A subclass adapts it to a library."""

    table: ClassVar[Mapping[str, Callable[[Any], Any]]]  # what computes each operation
    call: ClassVar[type[OperatorCall[Any]]]
    reason: ClassVar[int]  # which line of the library's errors says why it refused

    def run(self, program: Program, replace: Replace | None = None) -> list[Tensor]:
        """The program's results in order. Raises UnknownProgram, also for a use of an operation that is not known."""
        slots: dict[int, Slot[Tensor]] = {0: Slot(None, True)}
        fetched: dict[int, Any] = {}
        for operation in program.operations:
            inputs = [slots[number] for number in operation.inputs]
            if operation.name == "fetch":
                fetched[operation.attributes["col"]] = inputs[0].value
                continue
            try:
                results = self._results(operation, inputs)
                results = results if replace is None else replace(operation, results)
            except (RuntimeError, IndexError) as exc:  # the library refuses it
                raise UnknownProgram(f"{_place(operation)}: {str(exc).strip().splitlines()[self.reason]}") from exc
            known = operation.name != "data" and (operation.name in OF_SHAPES or all(slot.known for slot in inputs))
            self._keep(operation, results, known, slots)
        return [fetched[column] for column in sorted(fetched)]

    @abc.abstractmethod
    def parameter(self, name: str) -> Tensor: ...

    @abc.abstractmethod
    def data(self, name: str, kept: Type) -> Tensor:
        """An input of the program."""

    def tensor(self, result: Any) -> Tensor:
        """From what a function of the table gives."""
        return result

    @abc.abstractmethod
    def seen(self, value: Tensor) -> tuple[str, list[int]]:
        """A tensor's NumPy element type and its sizes; a size of -1 is open and fits nothing."""

    def _results(self, operation: Operation, inputs: list[Slot[Tensor]]) -> list[Any]:
        if operation.name == "parameter":
            return [self.parameter(operation.attributes["name"])]
        if operation.name == "data":
            kept = operation.types[0]
            assert isinstance(kept, Type)
            return [self.data(operation.attributes["name"], kept)]
        function = self.table.get(operation.name) or self.table.get(operation.name.removesuffix("_"))
        if function is None:
            raise UnknownProgram(f"operation {operation.name} is not known")
        call = self.call(operation, inputs)
        results = function(call)
        call.check_all_read()
        parts = [self.tensor(part) for part in (results if isinstance(results, list) else [results])]
        # A list of tensors is one value.
        return [parts] if isinstance(operation.types[0], tuple) else parts

    def _keep(self, operation: Operation, results: list[Any], known: bool, slots: dict[int, Slot[Tensor]]) -> None:
        for index, number in enumerate(operation.outputs):
            value = results[index] if index < len(results) else None
            if value is not None:
                self._check(operation, operation.types[index], value)
            if index == 0 and operation.name.endswith("_") and operation.name not in ELSEWHERE:
                # share_data_ gives its input another name; the others change it.
                slots[number] = slot = slots[operation.inputs[0]]
                slot.value, slot.known = value, known
            else:
                slots[number] = Slot(value, known)

    def _check(self, operation: Operation, kept: Type | tuple[Type, ...], value: Any) -> None:
        """Raise UnknownProgram unless a result has the type that the program gives for it."""
        if isinstance(kept, tuple) != isinstance(value, list):
            raise UnknownProgram(f"{_place(operation)} gives a list where the program has none, or the reverse")
        if isinstance(kept, tuple):
            if len(kept) != len(value):
                raise UnknownProgram(f"{_place(operation)} gives {len(value)} tensors; the program has {len(kept)}")
            for single, part in zip(kept, value):
                self._check(operation, single, part)
            return
        element, sizes = self.seen(value)
        fits = len(sizes) == len(kept.shape) and all(
            size >= 0 and wanted in (-1, size) for wanted, size in zip(kept.shape, sizes)
        )
        if not fits or element != kept.element:
            raise UnknownProgram(
                f"{_place(operation)} became {element} {sizes}; the program has {kept.element} {list(kept.shape)}"
            )


def _place(operation: Operation) -> str:
    """How messages name an operation."""
    return f"operation {operation.name} (value {operation.outputs[0] if operation.outputs else '-'})"
