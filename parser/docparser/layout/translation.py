# SPDX-License-Identifier: Apache-2.0
"""A program's translation to an OpenVINO model for one page.

Every size that the program leaves open is the number of pages, so it becomes 1 and all shapes are known. The result of
every operation is compared with the type and shape that the program gives for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import openvino as ov
from openvino import opset15 as nodes

from docparser.layout.operators import TABLE
from docparser.layout.operators.call import Call, Value, element_of
from paddle_program.call import check_result, place
from paddle_program.program import Operation, Program, Type, UnknownProgram

#: The name of an operation that writes in place ends with "_". These write to inputs that nobody reads.
ELSEWHERE = {"batch_norm_"}


class Slot:
    """The tensor behind one or several values: an operation that writes in place changes it for all of them."""

    def __init__(self, value: Value | None) -> None:
        self.value = value


class Translation:
    """``values`` are the slots of all values of the program; ``inputs`` and ``outputs`` those of the model.

    ``replace`` may take the place of an operation's results: it gets the operation and its translated results.
    """

    def __init__(
        self, program: Program, replace: Callable[[Operation, list[Value | None]], list[Value | None]] | None = None
    ) -> None:
        """Raises UnknownProgram for an operation, or a use of one, that is not known."""
        self.values: dict[int, Slot] = {0: Slot(None)}
        self.inputs: dict[str, Any] = {}
        self.outputs: dict[int, Any] = {}
        self._parameters = program.parameters
        for operation in program.operations:
            try:
                results = self._results(operation)
                if replace is not None:
                    results = replace(operation, results)
            except RuntimeError as exc:  # OpenVINO refuses to make the node
                raise UnknownProgram(f"{place(operation)}: {str(exc).strip().splitlines()[-1]}") from exc
            self._keep(operation, results)

    def model(self, further: Iterable[Any] = (), inputs: Iterable[Any] = ()) -> ov.Model:
        """Inputs by name, in the program's order; outputs in the order of the program's, and then ``further``."""
        results = [self.outputs[column] for column in sorted(self.outputs)]
        return ov.Model([*results, *further], [*self.inputs.values(), *inputs], "layout")

    def _results(self, operation: Operation) -> list[Value | None]:
        if operation.name == "parameter":
            return [nodes.constant(self._parameters[operation.attributes["name"]]).output(0)]
        if operation.name == "data":
            kept = operation.types[0]
            assert isinstance(kept, Type)
            name = operation.attributes["name"]
            pages, *sizes = kept.shape
            if min(sizes, default=0) < 0:
                raise UnknownProgram(f"input {name} leaves more open than the number of pages: {list(kept.shape)}")
            node = nodes.parameter([1 if pages < 0 else pages, *sizes], np.dtype(kept.element).type, name)
            node.output(0).get_tensor().set_names({name})
            self.inputs[name] = node
            return [node.output(0)]
        values = [self.values[number].value for number in operation.inputs]
        if operation.name == "fetch":
            self.outputs[operation.attributes["col"]] = values[0]
            return values
        translate = TABLE.get(operation.name) or TABLE.get(operation.name.removesuffix("_"))
        if translate is None:
            raise UnknownProgram(f"operation {operation.name} is not known")
        call = Call(operation, values)
        results = translate(call)
        call.check_all_read()
        parts = [
            part.output(0) if isinstance(part, ov.Node) else part
            for part in (results if isinstance(results, list) else [results])
        ]
        # A list of tensors is one value.
        return [parts] if isinstance(operation.types[0], tuple) else parts

    def _keep(self, operation: Operation, results: list[Value | None]) -> None:
        for index, number in enumerate(operation.outputs):
            value = results[index] if index < len(results) else None
            if value is not None:
                check_result(operation, operation.types[index], value, _seen)
            if index == 0 and operation.name.endswith("_") and operation.name not in ELSEWHERE:
                # share_data_ gives its input another name; the others change it.
                self.values[number] = slot = self.values[operation.inputs[0]]
                slot.value = value
            else:
                self.values[number] = Slot(value)


def _seen(value: Any) -> tuple[str, list[int]]:
    sizes = value.get_partial_shape()
    return element_of(value), [-1 if size.is_dynamic else size.get_length() for size in sizes]


def translate(program: Program) -> ov.Model:
    """Raises UnknownProgram."""
    return Translation(program).model()
