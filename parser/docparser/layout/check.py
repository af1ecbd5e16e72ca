# SPDX-License-Identifier: Apache-2.0
"""Whether a translated program gives the values that Paddle gives, on one drawn page.

Two engines round differently, so where a program decides (which queries are the best, which pixel a corner lies on), a
difference of 1e-7 can become another block. Therefore the two are compared in pieces: Paddle runs the program and tells
every decision, too; the translated program goes on from Paddle's decisions. What it would have decided itself is
compared as well, and must be the same nearly everywhere.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
from openvino import opset15 as nodes

from docparser.layout.engine import Engine
from docparser.layout.reference import run_in_paddle
from docparser.layout.translation import Translation
from paddle_program.program import Operation, Program, Type

#: The largest difference from Paddle's value, as a share of the largest value of the same tensor; of a table like that
#: of the boxes, whose columns are of different kinds, of the same column.
TOLERANCE = 1e-3
#: Of decisions about each element, the share that must be the same.
SAME = 0.98
SORTING = {"argsort", "topk"}
STEPS = {"ceil", "floor", "floor_divide", "remainder"}
ABOUT_SHAPES = {"full_like", "shape64"}


class Disagreement(Exception):
    """The two give different values; the text says where."""


@dataclasses.dataclass(frozen=True)
class Decision:
    """An operation that makes a jump of a small difference; ``outputs`` are its values' numbers."""

    name: str
    outputs: tuple[int, ...]


def decisions(program: Program) -> list[Decision]:
    """Those that depend on the page."""
    types: dict[int, Any] = {}
    from_page: set[int] = set()
    found = []
    for operation in program.operations:
        types |= dict(zip(operation.outputs, operation.types, strict=True))
        if operation.name == "data":
            from_page |= set(operation.outputs)
        elif from_page & set(operation.inputs) and operation.name not in ABOUT_SHAPES | {"fetch"}:
            from_page |= set(operation.outputs)
            if _jumps(operation, [types[number] for number in operation.inputs if number]):
                found.append(Decision(operation.name, operation.outputs))
    return found


def _jumps(operation: Operation, inputs: list[object]) -> bool:
    if operation.name in SORTING:  # of equal numbers, too, any may come first
        return True
    result = operation.types[0]
    steps = operation.name in STEPS or isinstance(result, Type) and not _is_real(result)
    return steps and any(_is_real(kind) for kind in inputs)


def _is_real(kind: object) -> bool:
    return isinstance(kind, Type) and kind.element.startswith("float")


def draw_page() -> dict[str, np.ndarray]:
    """A layout model's inputs for a page of grey lines, as PaddleX makes them: 0..1, ``[1, 3, 800, 800]``."""
    random = np.random.default_rng(17)
    page = np.full((800, 800), 0.98, np.float32)
    for top in range(60, 740, 26):
        left, right = 70 + 300 * (top % 4 == 0), 730 - int(random.integers(0, 200))
        page[top : top + 12, left:right] -= 0.9 * (random.random((12, right - left)) < 0.45)
    page[420:560, 120:400] = random.random((140, 280))
    image = np.stack([page, page, page])[None] * np.array([1.0, 0.97, 0.94], np.float32).reshape(1, 3, 1, 1)
    return {
        "im_shape": np.array([[800.0, 800.0]], np.float32),
        "image": image.astype(np.float32),
        "scale_factor": np.array([[0.475, 0.672]], np.float32),
    }


def check(program: Program, model: Path, parameters: Path, inputs: dict[str, np.ndarray] | None = None) -> float:
    """The largest difference, as TOLERANCE counts it. ``model`` and ``parameters`` are the program's files; ``inputs``
    are those of a drawn page where they are not given. Raises Disagreement, UnknownProgram."""
    inputs = draw_page() if inputs is None else inputs
    names = {operation.attributes["name"] for operation in program.operations if operation.name == "data"}
    if names != inputs.keys():
        raise Disagreement(f"the program's inputs are {sorted(names)}; expected {sorted(inputs)}")
    found = decisions(program)
    results, decided = run_in_paddle(model, parameters, inputs, [n for decision in found for n in decision.outputs])
    ours, own = _follow(program, found, inputs, decided)
    worst = max(_difference(f"output {index}", *pair) for index, pair in enumerate(zip(ours, results, strict=True)))
    for decision in found:
        what = f"operation {decision.name} (value {decision.outputs[0]})"
        mine, theirs = own[decision.outputs[0]], decided[decision.outputs[0]]
        if decision.name in SORTING:  # the values in order; which place one of two equal ones came from is open
            worst = max(worst, _difference(what, mine, theirs))
        elif (share := _same(mine, theirs)) < SAME:
            raise Disagreement(f"{what}: {share:.1%} as Paddle decides; at least {SAME:.0%} are wanted")
    return worst


def _follow(
    program: Program, found: list[Decision], inputs: dict[str, np.ndarray], decided: dict[int, np.ndarray]
) -> tuple[list[np.ndarray], dict[int, np.ndarray]]:
    """The translated program's results, where it goes on from ``decided``; and by number what it would have decided."""
    by_outputs = {decision.outputs for decision in found}
    own: dict[int, Any] = {}
    given: dict[str, Any] = {}

    def replace(operation: Operation, values: list[Any]) -> list[Any]:
        if operation.outputs not in by_outputs:
            return values
        own.update(zip(operation.outputs, values, strict=True))
        return [stand_in(number) for number in operation.outputs]

    def stand_in(number: int) -> Any:
        known, name = decided[number], f"decided_{number}"
        given[name] = nodes.parameter(list(known.shape), known.dtype.type, name)
        given[name].output(0).get_tensor().set_names({name})
        return given[name].output(0)

    model = Translation(program, replace).model(own.values(), given.values())
    told = {f"decided_{number}": value for number, value in decided.items()}
    outputs = Engine(model).run({**inputs, **told})
    count = len(outputs) - len(own)
    return outputs[:count], dict(zip(own, outputs[count:], strict=True))


def _difference(what: str, ours: np.ndarray, theirs: np.ndarray) -> float:
    if ours.shape != theirs.shape:
        raise Disagreement(f"{what}: shape {ours.shape}; Paddle gives {theirs.shape}")
    if not ours.size:
        return 0.0
    columns = (-1, ours.shape[-1]) if ours.ndim == 2 else (-1, 1)
    apart = np.abs(ours.astype(np.float64) - theirs).reshape(columns).max(0)
    largest = np.abs(theirs.astype(np.float64)).reshape(columns).max(0)
    shares = apart / np.maximum(largest, 1e-3)
    if not np.all(shares <= TOLERANCE):  # NaN is not
        column = int(np.argmax(np.nan_to_num(shares, nan=np.inf)))
        raise Disagreement(
            f"{what}: {apart[column]:.3g} away from Paddle's values, which go up to {largest[column]:.3g}"
        )
    return float(shares.max())


def _same(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The share of equal decisions."""
    if ours.shape != theirs.shape:
        return 0.0
    equal = np.isclose(ours, theirs, TOLERANCE, TOLERANCE) if ours.dtype.kind == "f" else ours == theirs
    return float(equal.mean()) if ours.size else 1.0
