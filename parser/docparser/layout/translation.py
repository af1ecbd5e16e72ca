# SPDX-License-Identifier: Apache-2.0
"""A program's translation to an OpenVINO model for one page.

Every size that the program leaves open is the number of pages, so it becomes 1 and all shapes are known.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import openvino as ov
from openvino import opset15 as nodes

from docparser.layout.operators import TABLE
from docparser.layout.operators.call import Call, Output, element_of
from paddle_program.program import Program, Type, UnknownProgram
from paddle_program.walk import Replace, Walk


class Translation(Walk[Output]):
    table, call = TABLE, Call
    reason = -1  # OpenVINO first tells where its own code stood

    def __init__(self, program: Program, replace: Replace | None = None) -> None:
        """``replace`` may take the place of an operation's results. Raises UnknownProgram for an operation, or a use of
        one, that is not known."""
        self._parameters = program.parameters
        self._inputs: dict[str, Any] = {}
        self._outputs = self.run(program, replace)

    def model(self, further: Iterable[Any] = (), inputs: Iterable[Any] = ()) -> ov.Model:
        """Inputs by name, in the program's order; outputs in the order of the program's, and then ``further``."""
        return ov.Model([*self._outputs, *further], [*self._inputs.values(), *inputs], "layout")

    def parameter(self, name: str) -> Output:
        return nodes.constant(self._parameters[name]).output(0)

    def data(self, name: str, kept: Type) -> Output:
        pages, *sizes = kept.shape
        if min(sizes, default=0) < 0:
            raise UnknownProgram(f"input {name} leaves more open than the number of pages: {list(kept.shape)}")
        node = nodes.parameter([1 if pages < 0 else pages, *sizes], np.dtype(kept.element).type, name)
        node.output(0).get_tensor().set_names({name})
        self._inputs[name] = node
        return node.output(0)

    def tensor(self, result: Any) -> Output:
        return result.output(0) if isinstance(result, ov.Node) else result

    def seen(self, value: Output) -> tuple[str, list[int]]:
        sizes = value.get_partial_shape()
        return element_of(value), [-1 if size.is_dynamic else size.get_length() for size in sizes]


def translate(program: Program) -> ov.Model:
    """Raises UnknownProgram."""
    return Translation(program).model()
