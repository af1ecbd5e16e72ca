# SPDX-License-Identifier: Apache-2.0
"""Whether what came back is whole, or says why not with a reason that the run gave."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from chaos.documents import Document, Readings
from chaos.faults.field import VLM_HANGS_UP, VLM_LIES, WORKER_KILLED
from chaos.journal import Span

# A VLM that is away means "wait", whoever says it: these words in a result are pages given up for it.
AWAY = re.compile(r"<html|50[234] |cannot be reached|service unavailable|bad gateway|no server", re.IGNORECASE)


@dataclass
class Verdict:
    """`violations`: (kind, words). `reasons`: why pages or blocks are missing, where the run gave the cause."""

    whole: int = 0
    incomplete: int = 0
    pages: int = 0
    violations: list[tuple[str, str]] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, kind: str, words: str) -> None:
        self.violations.append((kind, words))


def causes(spans: Sequence[Span], begin_s: float, end_s: float) -> set[str]:
    """The marks of all actions that met this time."""
    return {mark for span in spans if span.meets(begin_s, end_s) for mark in span.marks}


def excuse(kind: str, message: str, marks: set[str]) -> str:
    """ "" if the run gave a cause for this reason, else what is wrong with it."""
    if AWAY.search(message):
        return "given up although the VLM was only away"
    if kind == "worker_lost":
        return "" if WORKER_KILLED in marks else "a worker was lost, and none was killed"
    if kind == "failed" and "hung up" in message and VLM_HANGS_UP in marks:
        return ""
    if kind in ("failed", "refused", "timeout", "repetition", "length"):
        return "" if VLM_LIES in marks else "the VLM failed on it, and it told no lie"
    return "not a reason that the run gave"


def judge_pages(
    document: Document, results: Sequence[dict[str, Any]], readings: Readings, marks: set[str], what: str, to: Verdict
) -> None:
    """`results`: {"entry", "report"} for each page, where `report` is the page's entry in docparser.pages."""
    if len(results) != document.pages:
        to.add("page count", f"{what}: {len(results)} pages instead of {document.pages}")
        return
    complete = True
    for number, found in enumerate(results):
        to.pages += 1
        report = found["report"] or {}
        problems = [report["error"]] if report.get("error") else list(report.get("blocks") or ())
        for problem in problems:
            kind, message = str(problem.get("kind")), str(problem.get("message"))
            if wrong := excuse(kind, message, marks):
                to.add("incomplete without cause", f"{what}, page {number + 1}: {wrong}: {kind}: {message[:200]}")
            to.reasons[f"{kind}: {message[:80]}"] += 1
            complete = False
        if report.get("error"):
            continue
        noted = places(found["entry"], report.get("blocks") or [])
        if difference := readings.difference(document.name, number, found["entry"], noted):
            to.add("text differs", f"{what}, page {number + 1}: {difference}")
    to.whole += complete
    to.incomplete += not complete


def judge_refusal(status: int, words: str, marks: set[str], what: str, to: Verdict) -> None:
    """An honest document that was refused: right only where workers were killed under its page and it says so."""
    if status == 422 and "worker" in words and WORKER_KILLED in marks:
        to.incomplete += 1
        to.reasons[f"{status}: {words[:80]}"] += 1
    else:
        to.add("status", f"{what}: {status} {words}")


def places(entry: dict[str, Any], notes: Sequence[dict[str, Any]]) -> set[int]:
    """Places in the list of blocks that notes speak of. A note without a block's id may be any block's part."""
    blocks = (entry.get("prunedResult") or {}).get("parsing_res_list") or []
    ids = {note.get("block_id") for note in notes}
    return {place for place, block in enumerate(blocks) if block.get("block_id") in ids or None in ids}


def of_answer(result: dict[str, Any]) -> list[dict[str, Any]]:
    """The pages of an answer of /layout-parsing."""
    reports = {report["page"]: report for report in (result.get("docparser") or {}).get("pages") or []}
    entries = result["layoutParsingResults"]
    return [{"entry": entry, "report": reports.get(number)} for number, entry in enumerate(entries, 1)]


def of_lines(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The pages of a job's JSONL."""
    return [
        {"entry": line["layoutParsingResults"][0], "report": (line["docparser"].get("pages") or [None])[0]}
        for line in lines
    ]
