# SPDX-License-Identifier: Apache-2.0
"""The report: Markdown for people, JSON for programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from bundle.acceptance.steps import FAIL, PASS, SKIP, WARN, Record

MARKS = {PASS: "pass", WARN: "**warn**", FAIL: "**FAIL**", SKIP: "n/a"}


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


def markdown(facts: Mapping[str, str], records: list[Record]) -> str:
    """The whole report; `facts` say what was accepted, where and when."""
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


def document(facts: Mapping[str, str], records: list[Record]) -> dict[str, Any]:
    """What report.json holds."""
    steps = [asdict(record) for record in records]
    return {"accepted": accepted(records), "verdict": verdict(records), "facts": dict(facts), "steps": steps}
