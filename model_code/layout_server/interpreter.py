# SPDX-License-Identifier: Apache-2.0
"""Paddle's program run by PyTorch, operation by operation."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from layout_server.operators import TABLE
from layout_server.operators.call import Call
from paddle_program.program import Program, Type, UnknownProgram
from paddle_program.walk import Replace, Walk


class Interpreter:
    def __init__(self, program: Program) -> None:
        self._program = program
        self._parameters = {name: torch.from_numpy(np.array(value)) for name, value in program.parameters.items()}

    def run(self, inputs: Mapping[str, Tensor], replace: Replace | None = None) -> list[Tensor]:
        """The program's results in order, for inputs by name. ``replace`` may take the place of an operation's results.
        Raises UnknownProgram for an operation, or a use of one, that is not known."""
        return _Run(self._parameters, inputs).run(self._program, replace)


class _Run(Walk[Tensor]):
    table, call = TABLE, Call
    reason = 0  # torch may add lines about its own code

    def __init__(self, parameters: Mapping[str, Tensor], inputs: Mapping[str, Tensor]) -> None:
        self._parameters, self._inputs = parameters, inputs

    def parameter(self, name: str) -> Tensor:
        return self._parameters[name]

    def data(self, name: str, kept: Type) -> Tensor:
        if name not in self._inputs:
            raise UnknownProgram(f"input {name} is none of {', '.join(sorted(self._inputs))}")
        return self._inputs[name]

    def seen(self, value: Tensor) -> tuple[str, list[int]]:
        return str(value.dtype).removeprefix("torch."), list(value.shape)
