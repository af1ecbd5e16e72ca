# SPDX-License-Identifier: Apache-2.0
"""A program as Paddle saves it: ``inference.json`` (PIR, version 3) and ``inference.pdiparams``. Needs no Paddle.

The JSON holds one block: a flat list of operations in the order in which they run. ``#`` is an operation's name, ``A``
its attributes, ``I`` the numbers of its inputs and ``O`` its outputs with their types. Numbers name values; 0 is none.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from paddle_program.parameters import read_parameters
from served_weights.manifest import digest

DIALECTS = {"0.": "builtin.", "1.": ""}
ELEMENTS = {"f32": "float32", "f64": "float64", "i32": "int32", "i64": "int64", "bool": "bool", "ui8": "uint8"}
#: Attributes that say where an operation came from, or which device holds its value.
ASIDE = {"op_callstack", "struct_name", "place", "stop_gradient", "persistable"}


class UnknownProgram(Exception):
    """The program has something that the translator does not know; the text names it."""


@dataclasses.dataclass(frozen=True)
class Type:
    """A tensor's NumPy element type and shape, -1 where the program leaves a size open."""

    element: str
    shape: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Operation:
    """``types`` belong to ``outputs``: a Type, or a tuple of them for a list of tensors."""

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    types: tuple[Type | tuple[Type, ...], ...]
    attributes: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Program:
    operations: tuple[Operation, ...]
    parameters: dict[str, np.ndarray]


def model_files(model_dir: Path) -> tuple[Path, Path]:
    """The program and its parameters."""
    return model_dir / "inference.json", model_dir / "inference.pdiparams"


def model_checksum(model_dir: Path) -> str:
    """SHA-256 of both files: parser and layout server compare it, so that both mean the same model. Raises OSError."""
    return hashlib.sha256("\n".join(map(digest, model_files(model_dir))).encode()).hexdigest()


def read_program(model: Path, parameters: Path) -> Program:
    """Raises UnknownProgram, OSError."""
    try:
        document = json.loads(model.read_text(encoding="utf-8"))
        version = document["base_code"]["version"]
        (region,) = document["program"]["regions"]
        (block,) = region["blocks"]
        operations = tuple(_operation(entry) for entry in block["ops"])
    except (KeyError, TypeError, ValueError) as exc:
        raise UnknownProgram(f"{model} is not a PIR program of one block ({type(exc).__name__}: {exc})") from exc
    if version != 3:
        raise UnknownProgram(f"{model} is a PIR program of version {version}; expected 3")
    names = {entry.attributes["name"]: entry.types[0] for entry in operations if entry.name == "parameter"}
    return Program(operations, read_parameters(parameters, names))


def _operation(entry: dict[str, Any]) -> Operation:
    if entry.get("regions"):
        raise UnknownProgram(f"operation {entry['#']} holds a block of its own")
    if entry["#"] == "p":  # a parameter: its name is the fourth of the attributes
        output = entry["O"]
        return Operation("parameter", (), (output["%"],), (_type(output["TT"]),), {"name": entry["A"][3]})
    dialect, name = entry["#"][:2], entry["#"][2:]
    if dialect not in DIALECTS:
        raise UnknownProgram(f"operation {entry['#']} is of a dialect that is not known")
    return Operation(
        DIALECTS[dialect] + name,
        tuple(value["%"] for value in entry["I"]),
        tuple(value["%"] for value in entry["O"]),
        tuple(_type(value["TT"]) for value in entry["O"]),
        {item["N"]: _plain(item["AT"]) for item in entry["A"] if item["N"] not in ASIDE},
    )


def _type(described: dict[str, Any] | None) -> Type | tuple[Type, ...]:
    kind = described["#"] if described else ""
    if described and kind.endswith("t_vec"):
        return tuple(_type(part) for part in described["D"])  # type: ignore[misc]  # lists are not nested
    if not described or not kind.endswith("t_dtensor"):
        return ()  # an output that is not there
    element, shape = described["D"][:2]
    code = element["#"].rpartition("t_")[2]
    if code not in ELEMENTS:
        raise UnknownProgram(f"elements of type {element['#']}")
    return Type(ELEMENTS[code], tuple(shape))


def _plain(attribute: dict[str, Any]) -> Any:
    """The attribute as Python has it."""
    if attribute["#"].endswith("a_array"):
        return [_plain(part) for part in attribute["D"]]
    if "VD" in attribute:
        return float(attribute["VD"])  # INF, -INF or NAN, for which JSON has no number
    return attribute.get("D")
