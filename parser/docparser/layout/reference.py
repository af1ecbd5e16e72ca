# SPDX-License-Identifier: Apache-2.0
"""Paddle running a program, with the results of some of its operations besides."""

from __future__ import annotations

import copy
import json
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np


def run_in_paddle(
    model: Path, parameters: Path, inputs: Mapping[str, np.ndarray], numbers: Iterable[int] = ()
) -> tuple[list[np.ndarray], dict[int, np.ndarray]]:
    """The program's results, and the values with these numbers.

    Paddle gives what the program fetches, so the program gets further operations of that kind.
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
        config.delete_pass("common_subexpression_elimination_pass")  # it makes one of two results that are equal
        config.disable_glog_info()
        predictor = inference.create_predictor(config)
    for name in predictor.get_input_names():
        predictor.get_input_handle(name).copy_from_cpu(inputs[name])
    predictor.run()
    found = {name: predictor.get_output_handle(name).copy_to_cpu() for name in predictor.get_output_names()}
    results = [found[f"fetch_name_{column}"] for column in range(count)]
    return results, {number: found[f"fetch_name_{column}"] for number, column in columns.items()}


def _fetch_also(operations: list[dict[str, Any]], numbers: list[int]) -> dict[int, int]:
    """Add to ``operations``; returns the column of each number, of those that the program fetches itself its own."""
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
