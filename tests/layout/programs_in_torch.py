# SPDX-License-Identifier: Apache-2.0
"""The layout server's interpreter on a program whose results Paddle has given: ``programs_in_torch.py FOLDER``.

Runs in the environment `vlm`. FOLDER holds the program and `paddle.npz`: inputs as in_NAME, results as out_NUMBER, and
what Paddle decided as decided_NUMBER, from which the interpreter then goes on. Writes its results to `torch.npz`.
Prints one JSON object: without decisions the operations whose values differ; those of the table that the program
lacks; the plan's operators of PyTorch, and whether it gives what the interpreter gives.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from layout_server.interpreter import Interpreter
from layout_server.operators import TABLE
from layout_server.plan import Plan
from paddle_program.program import Operation, model_files, read_program


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    program = read_program(*model_files(folder))
    told = np.load(folder / "paddle.npz")
    inputs = {name[3:]: torch.from_numpy(told[name]) for name in told if name.startswith("in_")}
    expected = [told[f"out_{number}"] for number in range(sum(name.startswith("out_") for name in told))]
    made_by = {number: operation for operation in program.operations for number in operation.outputs}
    fetched = {o.attributes["col"]: made_by[o.inputs[0]].name for o in program.operations if o.name == "fetch"}
    interpreter = Interpreter(program)
    decided = {int(name[8:]): torch.from_numpy(told[name]) for name in told if name.startswith("decided_")}

    def go_on(operation: Operation, results: list[Any]) -> list[Any]:
        return [decided.get(number, value) for number, value in zip(operation.outputs, results, strict=False)]

    found = [value.numpy() for value in interpreter.run(inputs, go_on if decided else None)]
    made: dict[str, Any] = {str(number): value for number, value in enumerate(found)}
    np.savez(folder / "torch.npz", **made)
    found = [value.numpy() for value in interpreter.run(inputs)] if decided else found
    plan = Plan(interpreter, inputs)
    planned = [value.numpy() for value in plan(inputs)]
    wrong = [
        fetched[number]
        for number, (ours, theirs) in enumerate(zip(found, expected, strict=True))
        if (ours.shape, ours.dtype) != (theirs.shape, theirs.dtype) or not np.allclose(ours, theirs, 1e-5, 1e-5)
    ]
    print(
        json.dumps(
            {
                "results": len(found),
                "wrong": [] if decided else wrong,
                "untried": sorted(TABLE.keys() - {operation.name for operation in program.operations}),
                "operators": sorted({str(step.operator).removeprefix("aten.") for step in plan.steps}),
                "plan_differs": [
                    n for n, pair in enumerate(zip(found, planned, strict=True)) if not np.array_equal(*pair)
                ],
            }
        )
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
