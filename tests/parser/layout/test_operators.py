# SPDX-License-Identifier: Apache-2.0
"""The translator of Paddle's programs: every operation gives Paddle's own values, and what is unknown is named."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from docparser.layout import conversion
from docparser.layout.conversion import Disagreement, check, run_in_paddle, translate
from docparser.layout.graph import Engine
from docparser.layout.operators import TABLE
from paddle_program.parameters import BadParameters
from paddle_program.program import Operation, Program, Type, UnknownProgram, read_program
from tests.support.operator_program import INPUTS, draw
from tests.support.processes import child_environment
from tests.support.wait import WAIT_S

# They run Paddle, and one of them a second Python with it.
pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> tuple[Path, Path]:
    """The program with every operation, and its parameters. It is made in a process of its own."""
    folder = tmp_path_factory.mktemp("operators")
    command = [sys.executable, "-m", "tests.support.operator_program", str(folder)]
    made = subprocess.run(command, env=child_environment(), capture_output=True, text=True, timeout=WAIT_S)
    assert made.returncode == 0, made.stderr
    return folder / "inference.json", folder / "inference.pdiparams"


@pytest.fixture(scope="module")
def program(files) -> Program:
    return read_program(*files)


def changed(program: Program, name: str, **attributes: object) -> Program:
    """With other attributes of the first operation of that name."""
    at = next(index for index, operation in enumerate(program.operations) if operation.name == name)
    operation = program.operations[at]
    other = dataclasses.replace(operation, attributes={**operation.attributes, **attributes})
    return dataclasses.replace(program, operations=(*program.operations[:at], other, *program.operations[at + 1 :]))


def open_input(program: Program) -> Program:
    """With the height of its first input left open."""
    maps = next(o for o in program.operations if o.name == "data" and o.attributes["name"] == "maps")
    other = dataclasses.replace(maps, types=(Type("float32", (1, 4, -1, 8)),))
    return dataclasses.replace(program, operations=tuple(other if o is maps else o for o in program.operations))


def renamed(program: Program, old: str, new: str) -> Program:
    operations = (dataclasses.replace(o, name=new) if o.name == old else o for o in program.operations)
    return dataclasses.replace(program, operations=tuple(operations))


def test_every_operation_gives_paddles_values(files, program):
    assert TABLE.keys() <= {operation.name for operation in program.operations}, "an operation that nothing compares"
    inputs = draw()
    model, parameters = files
    results, _ = run_in_paddle(model, parameters, inputs)
    made_by = {number: operation for operation in program.operations for number in operation.outputs}
    fetched = {o.attributes["col"]: made_by[o.inputs[0]] for o in program.operations if o.name == "fetch"}
    found = Engine(translate(program)).run(inputs)
    assert len(found) == len(results) > len(TABLE)
    wrong = [
        f"{fetched[index].name} {fetched[index].attributes}"
        for index, (ours, theirs) in enumerate(zip(found, results, strict=True))
        if (ours.shape, ours.dtype) != (theirs.shape, theirs.dtype)
        or not np.allclose(ours, theirs, rtol=1e-5, atol=1e-5)
    ]
    assert wrong == []


def test_the_check_finds_an_operation_that_gives_something_else(files, program, monkeypatch):
    model, parameters = files
    assert check(program, model, parameters, draw()) < conversion.TOLERANCE
    monkeypatch.setitem(TABLE, "floor", TABLE["ceil"])
    with pytest.raises(Disagreement):
        check(program, model, parameters, draw())


def test_a_program_with_other_inputs_is_no_layout_model(files, program):
    with pytest.raises(Disagreement, match=r"inputs are \['maps', 'table'\]; expected \['im_shape'"):
        check(program, *files)
    assert {o.attributes["name"] for o in program.operations if o.name == "data"} == set(INPUTS)


def test_what_is_not_known_is_named(program):
    with pytest.raises(UnknownProgram, match="operation fold_in_three is not known"):
        translate(renamed(program, "gelu", "fold_in_three"))
    with pytest.raises(UnknownProgram, match="operation gelu: attribute twice is not known"):
        translate(changed(program, "gelu", twice=True))
    with pytest.raises(UnknownProgram, match=r"operation pool2d: adaptive=True; known: False"):
        translate(changed(program, "pool2d", adaptive=True))
    with pytest.raises(UnknownProgram, match=r"input maps leaves more open than the number of pages: \[1, 4, -1, 8\]"):
        translate(open_input(program))
    with pytest.raises(UnknownProgram, match=r"operation transpose .* became float32 \[1, 8, 6, 4\]; the program has"):
        translate(changed(program, "transpose", perm=[0, 3, 2, 1]))


def test_an_operation_that_writes_in_place_changes_every_name_of_its_tensor(program):
    """As Paddle's do. Here, the second of two names is read after the first was written to."""
    first = next(o for o in program.operations if o.name == "data" and o.attributes["name"] == "table")
    kept = first.types
    again = 1 + max(number for operation in program.operations for number in operation.outputs)
    page = Program(
        (
            first,
            Operation("share_data_", first.outputs, (again,), kept, {}),
            Operation("relu_", first.outputs, (again + 1,), kept, {}),
            Operation("fetch", (again,), (again + 2,), kept, {"name": "fetch_name_0", "col": 0}),
        ),
        {},
    )
    table = draw()["table"] - 0.5
    (found,) = Engine(translate(page)).run({"table": table})
    assert np.array_equal(found, np.maximum(table, 0))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda data: data[:-3], "where .* should be"),
        (lambda data: data + b"\0", "the program's parameters end at"),
        (lambda data: data[:4] + b"\1" + data[5:], "the program wants"),
    ],
)
def test_parameters_that_are_not_the_programs(files, tmp_path, damage, words):
    model, parameters = files
    other = tmp_path / "inference.pdiparams"
    other.write_bytes(damage(parameters.read_bytes()))
    with pytest.raises(BadParameters, match=words):
        read_program(model, other)


@pytest.mark.parametrize("text", ["{}", "[1]", "", '{"base_code": {"version": 3}, "program": {"regions": []}}'])
def test_a_file_that_is_no_program(files, tmp_path, text):
    other = tmp_path / "inference.json"
    other.write_text(text)
    with pytest.raises(UnknownProgram, match="is not a PIR program of one block"):
        read_program(other, files[1])
