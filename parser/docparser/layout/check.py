# SPDX-License-Identifier: Apache-2.0
"""Whether a translated program gives the values that Paddle gives, on one drawn page.

Two engines round differently, so where a program decides (which queries are the best, which pixel a corner lies on), a
difference of 1e-7 can become another block. Therefore the two are compared in pieces: Paddle runs the program and gives
the results of every decision, too; the translated program goes on from Paddle's decisions. What it would have decided
itself is compared as well: it must be the same nearly everywhere.
"""

from __future__ import annotations

import dataclasses
import json
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from openvino import opset15 as nodes

from docparser.layout.engine import Engine
from docparser.layout.pir.program import Operation, Program, Type
from docparser.layout.translation import Translation

#: The largest difference from Paddle's value, as a share of the largest value of the same tensor (or of the same column
#: of the boxes, whose columns are of different kinds).
TOLERANCE = 2e-3
#: Of decisions about each element, how many must be the same; the numbers that are not must be neighbours.
SAME = 0.98
SORTING = {"topk", "argsort"}
STEPS = {"ceil", "floor", "floor_divide", "remainder"}
ABOUT_SHAPES = {"full_like", "shape", "shape64"}


class Disagreement(Exception):
    """The two give different values; the text says where."""


@dataclasses.dataclass(frozen=True)
class Decision:
    """An operation whose result jumps: ``outputs`` are its values' numbers."""

    name: str
    outputs: tuple[int, ...]


def decisions(program: Program) -> list[Decision]:
    """Those that depend on the page."""
    types: dict[int, Any] = {}
    from_page: set[int] = set()
    found = []
    for operation in program.operations:
        types |= dict(zip(operation.outputs, operation.types, strict=True))
        if operation.name == "data" or from_page & set(operation.inputs) and operation.name not in ABOUT_SHAPES:
            from_page |= set(operation.outputs)
            inputs = [types[number] for number in operation.inputs if number]
            if (
                operation.name != "fetch"
                and any(_is_real(kind) for kind in inputs)
                and _jumps(operation)
                or operation.name == "argsort"
            ):
                found.append(Decision(operation.name, operation.outputs))
    return found


def _jumps(operation: Operation) -> bool:
    kind = operation.types[0]
    return operation.name in SORTING | STEPS or isinstance(kind, Type) and not _is_real(kind)


def _is_real(kind: object) -> bool:
    return isinstance(kind, Type) and kind.element.startswith("float")


def draw_page() -> dict[str, np.ndarray]:
    """The model's inputs for a page of grey lines, as PaddleX makes them: 0..1, ``[1, 3, 800, 800]``."""
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


def check(program: Program, model: Path, parameters: Path) -> float:
    """The largest difference found, as ``TOLERANCE`` counts it. Raises Disagreement; UnknownProgram."""
    found = decisions(program)
    page = draw_page()
    names = {operation.attributes["name"] for operation in program.operations if operation.name == "data"}
    if names != page.keys():
        raise Disagreement(f"the program's inputs are {sorted(names)}; known are {sorted(page)}")
    results, decided = run_in_paddle(model, parameters, page, found)
    return compare(program, found, page, results, decided)


def compare(
    program: Program,
    found: list[Decision],
    page: dict[str, np.ndarray],
    results: list[np.ndarray],
    decided: dict[int, np.ndarray],
) -> float:
    by_output = {decision.outputs: decision for decision in found}
    own: list[Any] = []
    given: dict[str, Any] = {}
    order: list[tuple[Decision, int]] = []

    def replace(operation: Operation, values: list[Any]) -> list[Any]:
        """Keep what the translated operation says, and go on with what Paddle said."""
        decision = by_output.get(operation.outputs)
        if decision is None:
            return values
        instead = []
        for number, value in zip(operation.outputs, values, strict=True):
            order.append((decision, number))
            own.append(value)
            known = decided[number]
            node = nodes.parameter(list(known.shape), known.dtype.type, f"given_{number}")
            node.output(0).get_tensor().set_names({f"given_{number}"})
            given[f"given_{number}"] = node
            instead.append(node.output(0))
        return instead

    translation = Translation(program, replace)
    engine = Engine(translation.model(own, given.values()))
    outputs = engine.run({**page, **{name: decided[int(name.removeprefix("given_"))] for name in given}})
    worst = 0.0
    for index, (ours, theirs) in enumerate(zip(outputs[: len(results)], results, strict=True)):
        worst = max(worst, _difference(f"output {index}", ours, theirs))
    for (decision, number), ours in zip(order, outputs[len(results) :], strict=True):
        theirs = decided[number]
        what = f"operation {decision.name} (value {number})"
        if decision.name in SORTING:
            if number == decision.outputs[0]:  # the values; places of equal ones may differ
                worst = max(worst, _difference(what, np.sort(ours), np.sort(theirs)))
        elif (share := _same(ours, theirs)) < SAME:
            raise Disagreement(f"{what}: {share:.1%} as Paddle decides; at least {SAME:.0%} are wanted")
    return worst


def _difference(what: str, ours: np.ndarray, theirs: np.ndarray) -> float:
    if ours.shape != theirs.shape:
        raise Disagreement(f"{what}: shape {ours.shape}; Paddle gives {theirs.shape}")
    if not ours.size:
        return 0.0
    rows = (-1, ours.shape[-1]) if ours.ndim == 2 else (-1, 1)
    apart = np.abs(ours.astype(np.float64) - theirs).reshape(rows).max(0)
    largest = np.abs(theirs.astype(np.float64)).reshape(rows).max(0)
    shares = apart / np.maximum(largest, 1e-3)
    if not np.all(shares <= TOLERANCE):  # NaN is not
        worst = int(np.argmax(np.nan_to_num(shares, nan=np.inf)))
        raise Disagreement(
            f"{what}, column {worst}: {apart[worst]:.3g} from Paddle's values up to {largest[worst]:.3g}"
        )
    return float(shares.max())


def _same(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The share of equal decisions; 0 where one is of another shape or further than a step away."""
    if ours.shape != theirs.shape:
        return 0.0
    return float((ours == theirs).mean()) if ours.size else 1.0


def run_in_paddle(
    model: Path, parameters: Path, page: dict[str, np.ndarray], found: Iterable[Decision]
) -> tuple[list[np.ndarray], dict[int, np.ndarray]]:
    """The program's results, and by number the values that ``found`` lists, which are fetched besides."""
    from paddle import inference

    document = json.loads(model.read_text(encoding="utf-8"))
    operations = document["program"]["regions"][0]["blocks"][0]["ops"]
    types = {entry["%"]: entry["TT"] for operation in operations for entry in _outputs(operation)}
    numbers = [number for decision in found for number in decision.outputs]
    fetches = [operation for operation in operations if operation["#"] == "1.fetch"]
    after = max(types) + 1
    for index, number in enumerate(numbers):
        extra = json.loads(json.dumps(fetches[-1]))
        for attribute in extra["A"]:
            if attribute["N"] in ("name", "col"):
                further = len(fetches) + index
                attribute["AT"]["D"] = further if attribute["N"] == "col" else f"fetch_name_{further}"
        extra["I"] = [{"%": number}]
        extra["O"] = [{"%": after + index, "TT": types[number]}]
        operations.append(extra)
    with tempfile.TemporaryDirectory() as folder:
        longer = Path(folder) / "inference.json"
        longer.write_text(json.dumps(document), encoding="utf-8")
        config = inference.Config(str(longer), str(parameters))
        config.disable_gpu()
        config.disable_mkldnn()
        config.set_cpu_math_library_num_threads(1)
        config.enable_new_ir(True)
        config.enable_new_executor()
        config.disable_glog_info()
        predictor = inference.create_predictor(config)
    for name in predictor.get_input_names():
        predictor.get_input_handle(name).copy_from_cpu(page[name])
    predictor.run()
    values = {name: predictor.get_output_handle(name).copy_to_cpu() for name in predictor.get_output_names()}
    ordered = [values[f"fetch_name_{index}"] for index in range(len(fetches) + len(numbers))]
    return ordered[: len(fetches)], dict(zip(numbers, ordered[len(fetches) :], strict=True))


def _outputs(operation: dict[str, Any]) -> list[dict[str, Any]]:
    outputs = operation["O"]
    return outputs if isinstance(outputs, list) else [outputs]
