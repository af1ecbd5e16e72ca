# SPDX-License-Identifier: Apache-2.0
"""What a step is, and what becomes of it."""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass

from bundle.acceptance.node import Node
from tool_errors import ToolError

PASS, WARN, FAIL, SKIP = "pass", "warn", "fail", "not applicable"


@dataclass(frozen=True)
class Outcome:
    """`found` is one line for the report. A step that does not apply here says why."""

    verdict: str
    found: str


@dataclass(frozen=True)
class Step:
    """`shows` says what one knows when it has passed."""

    name: str
    shows: str
    run: Callable[[Node], Outcome]


@dataclass(frozen=True)
class Record:
    """A step that was run. `files` are its raw outputs in the archive."""

    name: str
    shows: str
    verdict: str
    found: str
    seconds: float
    commands: list[str]
    files: list[str]


def take(step: Step, number: int, node: Node) -> tuple[Record, dict[str, str]]:
    """Run one step; returns its record and its raw outputs by their names in the archive.

    Whatever a step raises is its failure, and the later ones still run: they can still say something.
    """
    node.outputs, node.commands = {}, []
    began = time.monotonic()
    try:
        outcome = step.run(node)
    except ToolError as error:
        outcome = Outcome(FAIL, str(error))
    except Exception as error:  # an answer of another form, for instance
        node.keep("error.txt", traceback.format_exc())
        what = (
            "an answer cannot be understood"
            if isinstance(error, (json.JSONDecodeError, KeyError))
            else "the step broke"
        )
        outcome = Outcome(FAIL, f"{what} ({type(error).__name__}: {error}); the raw outputs have it")
    folder = f"raw/{number:02}-{step.name.replace(' ', '-')}"
    outputs = {f"{folder}/{name}": text for name, text in node.outputs.items()}
    seconds = round(time.monotonic() - began, 1)
    record = Record(step.name, step.shows, outcome.verdict, outcome.found, seconds, node.commands, list(outputs))
    return record, outputs
