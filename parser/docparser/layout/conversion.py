# SPDX-License-Identifier: Apache-2.0
"""Makes the graph of a layout model: ``python -m docparser.layout.conversion MODEL_DIR OUT``.

It runs in a process of its own: Paddle and the graph together take 1.6 GiB once (published size), and a crash in
either's code ends this process alone. Exit status 3: the model cannot be converted; standard output says why in one
line.

Before a graph is kept, it must give the values that Paddle gives on one drawn page. Two engines round differently, so
where a program decides (which queries are the best, which pixel a corner lies on), a difference of 1e-7 can become
another block. Therefore the two are compared in pieces: Paddle runs the program and tells every decision, too; the
translated program goes on from Paddle's decisions. Its own decisions are compared as well, and must be the same nearly
everywhere.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
from openvino import opset15 as nodes

from docparser.layout.graph import GRAPH, REFUSED, Engine
from docparser.layout.operators import TABLE
from docparser.layout.operators.call import Call, Output, element_of
from paddle_program.parameters import BadParameters
from paddle_program.program import Operation, Program, Type, UnknownProgram, model_files, read_program
from paddle_program.walk import Replace, Walk

#: The largest difference from Paddle's value, as a share of the largest value in the same tensor; in a table, whose
#: columns are of different kinds, in the same column.
TOLERANCE = 1e-3
#: The share of decisions that must be the same.
SAME = 0.98
SORTING = {"argsort", "topk"}
STEPS = {"ceil", "floor", "floor_divide", "remainder"}
ABOUT_SHAPES = {"full_like", "shape64"}


class Translation(Walk[Output]):
    """A program as an OpenVINO model for one page. Every size that the program leaves open is the number of pages, so
    it becomes 1 and all shapes are known."""

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


def run_in_paddle(
    model: Path, parameters: Path, inputs: Mapping[str, np.ndarray], numbers: Iterable[int] = ()
) -> tuple[list[np.ndarray], dict[int, np.ndarray]]:
    """The program's results, and the values with these numbers.

    Paddle returns only fetched values, so the program gets further fetching operations.
    """
    from paddle import inference

    document = json.loads(model.read_text(encoding="utf-8"))
    operations = document["program"]["regions"][0]["blocks"][0]["ops"]
    count = sum(operation["#"] == "1.fetch" for operation in operations)
    columns = _fetch_also(operations, list(numbers))
    with tempfile.TemporaryDirectory() as folder:
        longer = Path(folder) / "inference.json"
        longer.write_text(json.dumps(document), encoding="utf-8")
        config = inference.Config(str(longer), str(parameters))
        config.disable_gpu()
        config.disable_mkldnn()
        config.set_cpu_math_library_num_threads(1)
        config.enable_new_ir(True)
        config.enable_new_executor()
        config.delete_pass("common_subexpression_elimination_pass")  # it would merge two equal results
        config.disable_glog_info()
        predictor = inference.create_predictor(config)
    for name in predictor.get_input_names():
        predictor.get_input_handle(name).copy_from_cpu(inputs[name])
    predictor.run()
    found = {name: predictor.get_output_handle(name).copy_to_cpu() for name in predictor.get_output_names()}
    results = [found[f"fetch_name_{column}"] for column in range(count)]
    return results, {number: found[f"fetch_name_{column}"] for number, column in columns.items()}


def _fetch_also(operations: list[dict[str, Any]], numbers: list[int]) -> dict[int, int]:
    """Add fetching operations; returns the column of each number. Values that the program fetches itself keep
    theirs."""
    outputs = [operation["O"] if isinstance(operation["O"], list) else [operation["O"]] for operation in operations]
    types = {output["%"]: output["TT"] for group in outputs for output in group}
    fetches = [operation for operation in operations if operation["#"] == "1.fetch"]
    own = {fetch["I"][0]["%"]: _attribute(fetch, "col")["D"] for fetch in fetches}
    columns = {number: own[number] for number in numbers if number in own}
    after = max(types) + 1
    for number in numbers:
        if number in columns:
            continue
        column = len(fetches) + sum(known >= len(fetches) for known in columns.values())
        columns[number] = column
        further = copy.deepcopy(fetches[-1])
        _attribute(further, "name")["D"] = f"fetch_name_{column}"
        _attribute(further, "col")["D"] = column
        further["I"] = [{"%": number}]
        further["O"] = [{"%": after + column, "TT": types[number]}]
        operations.append(further)
    return columns


def _attribute(operation: dict[str, Any], name: str) -> dict[str, Any]:
    return next(attribute["AT"] for attribute in operation["A"] if attribute["N"] == name)


class Disagreement(Exception):
    """The two give different values; the text says where."""


@dataclasses.dataclass(frozen=True)
class Decision:
    """An operation that makes a jump of a small difference; ``outputs`` are its values' numbers."""

    name: str
    outputs: tuple[int, ...]


def decisions(program: Program) -> list[Decision]:
    """The decisions that depend on the page."""
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
    if operation.name in SORTING:  # equal numbers may also come in any order
        return True
    result = operation.types[0]
    steps = operation.name in STEPS or (isinstance(result, Type) and not _is_real(result))
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
    """The translated program's results if it goes on from ``decided``, and by number its own decisions."""
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


def convert(model_dir: Path, out: Path) -> float:
    """Write the graph; returns the largest difference from Paddle's values. Raises UnknownProgram, BadParameters,
    Disagreement, OSError."""
    model, parameters = model_files(model_dir)
    program = read_program(model, parameters)
    graph = translate(program)
    difference = check(program, model, parameters)
    out.mkdir(parents=True, exist_ok=True)
    ov.save_model(graph, out / GRAPH, compress_to_fp16=False)
    return difference


def main() -> int:
    model_dir, out = map(Path, sys.argv[1:])
    try:
        print(f"{convert(model_dir, out):.1e}")
    except (UnknownProgram, BadParameters, Disagreement) as exc:
        print(exc)
        return REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main())
