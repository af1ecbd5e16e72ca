# SPDX-License-Identifier: Apache-2.0
"""The run as Markdown."""

from __future__ import annotations

import os
import statistics
import subprocess
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from bundle.paths import ROOT
from chaos.bundle_project import Bundle
from chaos.faults import ACTIONS
from chaos.journal import Journal, Span
from chaos.outcome import Limits, Outcome
from chaos.probe import Look, absences
from percentiles import percentile

SHOWN = 12  # violations of a kind


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)


def spread(values: Sequence[float]) -> list[object]:
    return [
        len(values),
        *(f"{percentile(values or [0.0], percent):.2f}" for percent in (50, 95, 99)),
        f"{max(values, default=0):.2f}",
    ]


def actions(spans: Sequence[Span]) -> str:
    rows = []
    for name in ACTIONS:
        done = [span for span in spans if span.action == name and not span.failed]
        not_now = sum(span.action == name and bool(span.failed) for span in spans)
        back = [span.ready_s for span in done if span.ready_s is not None]
        trouble = sum(span.end_s - span.begin_s for span in done)
        rows.append(
            [
                name,
                len(done),
                not_now or "",
                f"{trouble:.0f}" if done else "",
                f"{statistics.median(back):.0f}" if back else "",
                f"{max(back):.0f}" if back else "",
            ]
        )
    head = ["action", "times", "not carried out", "seconds of it", "ready again after, median s", "longest s"]
    return table(head, rows)


def health(looks: Sequence[Look], spans: Sequence[Span], until_s: float) -> str:
    away = absences(spans, looks, until_s)
    groups: dict[str, list[Look]] = {"while the parser is to be there": [], "while it is killed or stopped": []}
    for look in looks:
        gone = any(begin - 1 <= look.at_s + look.seconds and look.at_s <= end for begin, end in away)
        groups["while it is killed or stopped" if gone else "while the parser is to be there"].append(look)
    rows = []
    for name, some in groups.items():
        rows.append([name, *spread([x.seconds for x in some if not x.problem]), sum(bool(x.problem) for x in some)])
    return table(["/health", "answers", "p50 s", "p95 s", "p99 s", "longest s", "no answer"], rows)


def latencies(outcome: Outcome) -> str:
    rows = []
    for name, wanted in (("between actions", False), ("during actions", True)):
        values = [seconds / pages for seconds, pages, troubled in outcome.latencies if troubled is wanted]
        rows.append([name, *spread(values)])
    return table(["/layout-parsing, per page", "documents", "p50 s", "p95 s", "p99 s", "longest s"], rows)


def resources(outcome: Outcome) -> str:
    rows = []
    for service, before in outcome.before.items():
        after = outcome.after[service].figures()
        rows += [[service, name, value, after[name]] for name, value in before.figures().items()]
    return table(["service", "what", "before", "after"], rows)


def hostile(outcome: Outcome) -> str:
    kinds = sorted({kind for kind, _ in outcome.hostile})
    statuses = sorted({status for _, status in outcome.hostile})
    rows = [[kind, *(outcome.hostile[kind, status] or "" for status in statuses)] for kind in kinds]
    return table(["hostile document", *statuses], rows)


def violations(journal: Journal) -> str:
    if not journal.violations:
        return "None."
    counts = Counter(found.kind for found in journal.violations)
    parts = [table(["violation", "times"], counts.most_common())]
    for kind, count in counts.most_common():
        shown = [found for found in journal.violations if found.kind == kind][:SHOWN]
        lines = [f"- {found.at_s:.0f} s: {one_line(found.words)}" for found in shown]
        more = [f"- and {count - SHOWN} more"] if count > SHOWN else []
        parts.append("\n".join([f"**{kind}**", "", *lines, *more]))
    return "\n\n".join(parts)


def one_line(text: str) -> str:
    return " ".join(text.replace("`", "'").split())[:400]


def counted(counter: Counter[str]) -> str:
    return ", ".join(f"{name}: {count}" for name, count in sorted(counter.items())) or "none"


def version() -> str:
    """The commit of this tree, with a mark where files differ from it; "unknown" without git."""
    words = ["git", "describe", "--always", "--dirty", "--abbrev=10"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def report(bundle: Bundle, outcome: Outcome, journal: Journal, seed: int, minutes: float, limits: Limits) -> str:
    jobs, requests = outcome.jobs, outcome.requests
    clock = "" if bundle.clock else " Clock jumps were left out: this machine has no C compiler."
    reasons = jobs.reasons + requests.reasons
    why = table(["reason", "times"], reasons.most_common(20)) if reasons else "None was missing."
    verdict = f"{len(journal.violations)} violations" if journal.violations else "no violation"
    failed = [span for span in journal.spans if span.failed]
    parts = [
        f"# Chaos: {minutes:g} minutes, seed {seed}: {verdict}",
        f"{sum(not span.failed for span in journal.spans)} actions in {outcome.trouble_s:.0f} s.{clock} Bounds: "
        f"/health {limits.health_s:g} s, the parser answers again within {limits.back_s:g} s, all is ready within "
        f"{limits.ready_s:g} s.",
        f"Version {version()}, {os.cpu_count()} cores, load {outcome.load[0]:.1f} before and {outcome.load[1]:.1f} "
        f"after, {datetime.now(UTC).date()}.",
        "## Violations",
        violations(journal),
        "## What was done",
        actions(journal.spans),
        f"Not carried out: {'; '.join(f'{s.action}: {one_line(s.failed)}' for s in failed) or 'nothing'}.",
        f"Processes seen: {'; '.join(f'{s}: ' + ', '.join(names) for s, names in outcome.roles.items())}.",
        f"Requests to the VLM that were treated: {counted(outcome.treated)}.",
        "## What came back",
        table(
            ["honest work", "accepted or answered", "whole", "says what is missing", "pages compared"],
            [
                ["jobs", outcome.accepted, jobs.whole, jobs.incomplete, jobs.pages],
                ["requests", len(outcome.latencies), requests.whole, requests.incomplete, requests.pages],
            ],
        ),
        f"Answers to submissions: {counted(outcome.submitted)}. Answers to requests: {counted(outcome.asked)}. Jobs "
        f"with failed pages that were tried again afterwards: {outcome.retried}.",
        "Why pages or blocks are missing:",
        why,
        "## How long it took",
        health(outcome.looks, journal.spans, journal.now()),
        latencies(outcome),
        "## Strangers",
        hostile(outcome),
        f"Hostile jobs accepted, all of which must end: {outcome.hostile_jobs}. Clients that left: "
        f"{counted(outcome.left)}.",
        "## What the parser's log calls an error",
        table(["error", "times"], [(one_line(name), count) for name, count in outcome.errors.most_common(20)])
        if outcome.errors
        else "Nothing.",
        "## Where it was",
        resources(outcome),
    ]
    return "\n\n".join(parts) + "\n"
