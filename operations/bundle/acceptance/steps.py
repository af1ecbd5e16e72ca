# SPDX-License-Identifier: Apache-2.0
"""What a step is, what becomes of it, and the report of all: Markdown for people, JSON for programs."""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bundle.acceptance.node import Node
from tool_errors import ToolError

PASS, WARN, FAIL, SKIP = "pass", "warn", "fail", "not applicable"
MARKS = {PASS: "pass", WARN: "**warn**", FAIL: "**FAIL**", SKIP: "n/a"}
# What is wrong goes to the report up to so many; the raw outputs have the others.
MOST_WRONG = 5
BROKEN_OFF = "interrupted; the steps after it were not taken"


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

    Whatever a step raises is its failure, and the later ones still run: they can still say something. After Ctrl-C
    `found` is BROKEN_OFF.
    """
    node.outputs, node.commands = {}, []
    began = time.monotonic()
    try:
        outcome = step.run(node)
    except ToolError as error:
        outcome = Outcome(FAIL, str(error))
    except KeyboardInterrupt:
        outcome = Outcome(FAIL, BROKEN_OFF)
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


def listed(wrong: Sequence[str]) -> str:
    """The first things that are wrong, and how many more there are."""
    more = len(wrong) - MOST_WRONG
    return "; ".join(wrong[:MOST_WRONG]) + (f"; and {more} more" if more > 0 else "")


def accepted(records: list[Record]) -> bool:
    """Whether nothing has failed, and something was tried."""
    return any(record.verdict == PASS for record in records) and all(record.verdict != FAIL for record in records)


def verdict(records: list[Record]) -> str:
    counted = ", ".join(
        f"{count} {name}" for name in (PASS, WARN, FAIL, SKIP) if (count := sum(r.verdict == name for r in records))
    )
    return f"{'ACCEPTED' if accepted(records) else 'NOT ACCEPTED'}: {counted}"


def cell(text: str) -> str:
    """A text that stays in its cell of a table."""
    return " ".join(text.replace("|", "\\|").split())


def report_text(facts: Mapping[str, str], records: list[Record]) -> str:
    """The whole report in Markdown; `facts` say what was accepted, where and when."""
    lines = ["# Acceptance of the bundle", "", f"**{verdict(records)}**", ""]
    lines += ["| | |", "|---|---|", *(f"| {name} | {cell(value)} |" for name, value in facts.items()), ""]
    lines += ["| | step | verdict | seconds | found |", "|---|---|---|---|---|"]
    for number, record in enumerate(records, 1):
        row = (str(number), record.name, MARKS[record.verdict], f"{record.seconds:.1f}", cell(record.found))
        lines.append(f"| {' | '.join(row)} |")
    lines += ["", "## What each step shows"]
    for number, record in enumerate(records, 1):
        lines += ["", f"{number}. **{record.name}**: {record.shows}."]
        lines += [f"   - `{command}`" for command in record.commands[:6]]
        if len(record.commands) > 6:
            lines.append(f"   - and {len(record.commands) - 6} more commands")
        if record.files:
            lines.append(f"   - raw output: {', '.join(f'`{name}`' for name in record.files[:6])}")
    return "\n".join(lines) + "\n"


def report_json(facts: Mapping[str, str], records: list[Record]) -> dict[str, Any]:
    """What report.json holds."""
    steps = [asdict(record) for record in records]
    return {"accepted": accepted(records), "verdict": verdict(records), "facts": dict(facts), "steps": steps}
