# SPDX-License-Identifier: Apache-2.0
"""The bounds of a run, and what it found: what the report is made from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from chaos.journal import Span
from chaos.judge import Verdict
from chaos.probe import Look
from chaos.resources import Tolerance, Usage


@dataclass(frozen=True)
class Limits:
    """Seconds: `health_s` for an answer of /health; `back_s` until the parser answers again after it was killed;
    `ready_s` until the whole bundle is ready again."""

    health_s: float = 1.0
    back_s: float = 60.0
    ready_s: float = 300.0
    tolerance: Tolerance = Tolerance()


@dataclass
class Outcome:
    """What the report is made from."""

    looks: list[Look] = field(default_factory=list)
    jobs: Verdict = field(default_factory=Verdict)
    requests: Verdict = field(default_factory=Verdict)
    before: dict[str, Usage] = field(default_factory=dict)
    after: dict[str, Usage] = field(default_factory=dict)
    submitted: Counter[str] = field(default_factory=Counter)
    asked: Counter[str] = field(default_factory=Counter)
    latencies: list[tuple[float, int, bool]] = field(default_factory=list)
    hostile: Counter[tuple[str, str]] = field(default_factory=Counter)
    hostile_jobs: int = 0
    left: Counter[str] = field(default_factory=Counter)
    treated: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    accepted: int = 0
    retried: int = 0
    trouble_s: float = 0.0
    load: tuple[float, float] = (0.0, 0.0)
    roles: dict[str, list[str]] = field(default_factory=dict)


def shows_nothing(outcome: Outcome, spans: Sequence[Span]) -> list[str]:
    """A run in which little happened passes too easily."""
    done = [span for span in spans if not span.failed]
    facts = {
        "most actions could not be carried out": len(done) > len(spans) / 2,
        "no job was accepted": outcome.accepted,
        "no job came back whole": outcome.jobs.whole,
        "no request was answered": outcome.latencies,
        "no hostile document was sent": outcome.hostile,
        "no client left": outcome.left,
        "/health was never answered": [look for look in outcome.looks if not look.problem],
    }
    found = [words for words, fact in facts.items() if not fact]
    if any(span.action.startswith("vlm ") for span in done) and not outcome.treated:
        found.append("the proxy treated no request")
    return found
