# SPDX-License-Identifier: Apache-2.0
"""Paddle's program run by PyTorch, operation by operation.

The result of every operation is compared with the type and shape that the program gives for it, so that a use of an
operation which we have not seen is an error and not a wrong value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from layout_server.operators import TABLE
from layout_server.operators.call import Call, Value
from paddle_program.call import check_result, place
from paddle_program.program import Operation, Program, UnknownProgram

#: The name of an operation that writes in place ends with "_". These write to inputs that nobody reads.
ELSEWHERE = {"batch_norm_"}
#: Of their inputs only the shape counts, so their results are known before a page comes.
OF_SHAPES = {"shape64", "full_like"}


Replace = Callable[[Operation, list[Any]], list[Any]]


class Slot:
    """The tensor behind one or several values: an operation that writes in place changes it for all of them.

    ``known``: it is the same for all pages.
    """

    def __init__(self, value: Value | None, known: bool) -> None:
        self.value, self.known = value, known


class Interpreter:
    def __init__(self, program: Program) -> None:
        self._program = program
        self._parameters = {name: torch.from_numpy(np.array(value)) for name, value in program.parameters.items()}

    def run(self, inputs: Mapping[str, Tensor], replace: Replace | None = None) -> list[Tensor]:
        """The program's results in order, for inputs by name. ``replace`` may take the place of an operation's results:
        it gets the operation and what it gave. Raises UnknownProgram for an operation, or a use of one, that is not
        known."""
        slots: dict[int, Slot] = {0: Slot(None, True)}
        outputs: dict[int, Tensor] = {}
        for operation in self._program.operations:
            given = [slots[number] for number in operation.inputs]
            values = [slot.value for slot in given]
            if operation.name == "fetch":
                outputs[operation.attributes["col"]] = values[0]  # type: ignore[assignment]  # no list is fetched
                continue
            try:
                results = self._results(operation, values, [slot.known for slot in given], inputs)
                results = results if replace is None else replace(operation, results)
            except (RuntimeError, IndexError) as exc:  # torch refuses it
                raise UnknownProgram(f"{place(operation)}: {str(exc).strip().splitlines()[0]}") from exc
            _keep(operation, results, _is_known(operation, [slot.known for slot in given]), slots)
        return [outputs[column] for column in sorted(outputs)]

    def _results(
        self,
        operation: Operation,
        values: Sequence[Value | None],
        known: Sequence[bool],
        inputs: Mapping[str, Tensor],
    ) -> list[Any]:
        if operation.name == "parameter":
            return [self._parameters[operation.attributes["name"]]]
        if operation.name == "data":
            if operation.attributes["name"] not in inputs:
                raise UnknownProgram(f"input {operation.attributes['name']} is none of {', '.join(sorted(inputs))}")
            return [inputs[operation.attributes["name"]]]
        function = TABLE.get(operation.name) or TABLE.get(operation.name.removesuffix("_"))
        if function is None:
            raise UnknownProgram(f"operation {operation.name} is not known")
        call = Call(operation, values, known)
        results = function(call)
        call.check_all_read()
        if isinstance(operation.types[0], tuple):  # a list of tensors is one value
            return [results]
        return results if isinstance(results, list) else [results]


def _is_known(operation: Operation, inputs: Sequence[bool]) -> bool:
    return operation.name != "data" and (operation.name in OF_SHAPES or all(inputs))


def _keep(operation: Operation, results: list[Any], known: bool, slots: dict[int, Slot]) -> None:
    for index, number in enumerate(operation.outputs):
        value = results[index] if index < len(results) else None
        if value is not None:
            check_result(operation, operation.types[index], value, _seen)
        if index == 0 and operation.name.endswith("_") and operation.name not in ELSEWHERE:
            # share_data_ gives its input another name; the others change it.
            slots[number] = slot = slots[operation.inputs[0]]
            slot.value, slot.known = value, known
        else:
            slots[number] = Slot(value, known)


def _seen(value: Tensor) -> tuple[str, list[int]]:
    return str(value.dtype).removeprefix("torch."), list(value.shape)
