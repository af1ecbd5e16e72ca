# SPDX-License-Identifier: Apache-2.0
"""Asks `/health` twice a second, and judges how long it took and when nobody answered."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from chaos.faults.field import PARSER_AWAY
from chaos.http_client import Away, ask
from chaos.journal import Journal, Span

EVERY_S = 0.5
TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Look:
    """One request of /health: when it was sent, how long its answer took; `problem` says why there was none."""

    at_s: float
    seconds: float
    problem: str = ""


class Probe(threading.Thread):
    """Looks until `stop` is set."""

    def __init__(self, url: str, journal: Journal, stop: threading.Event) -> None:
        super().__init__(name="probe", daemon=True)
        self.looks: list[Look] = []
        self._url, self._journal, self._stop_event = url, journal, stop

    def run(self) -> None:
        while not self._stop_event.wait(EVERY_S):
            at, began = self._journal.now(), time.monotonic()
            try:
                status = ask(self._url, "GET", "/health", timeout=TIMEOUT_S).status
                problem = "" if status == 200 else f"status {status}"
            except Away as error:
                problem = str(error)
            self.looks.append(Look(at, time.monotonic() - began, problem))


def absences(spans: Sequence[Span], looks: Sequence[Look], until_s: float) -> list[tuple[float, float]]:
    """The times in which nobody need answer: from the begin of an action on the parser to the first answer after its
    end."""
    found = []
    for span in spans:
        if PARSER_AWAY in span.marks and not span.failed:
            back = (look.at_s + look.seconds for look in looks if look.at_s >= span.end_s and not look.problem)
            found.append((span.begin_s, next(back, until_s)))
    return found


def judge(
    looks: Sequence[Look], spans: Sequence[Span], bound_s: float, back_s: float, until_s: float
) -> list[tuple[str, str]]:
    """(kind, words) of what is wrong: no answer, or a late one, that no action on the parser explains; or the parser
    was away longer than `back_s` after the end of such an action."""
    away, found = absences(spans, looks, until_s), []
    for look in looks:
        explained = any(begin - 1 <= look.at_s + look.seconds and look.at_s <= end for begin, end in away)
        if explained:
            continue
        if look.problem:
            found.append(("health not answered", f"at {look.at_s:.1f} s: {look.problem}"))
        elif look.seconds > bound_s:
            found.append(("health late", f"at {look.at_s:.1f} s: {look.seconds:.2f} s"))
    ends = [span for span in spans if PARSER_AWAY in span.marks and not span.failed]
    for span, (_, end) in zip(ends, away, strict=True):
        disturbed = any(other is not span and other.meets(span.end_s, end) for other in ends)
        if end - span.end_s > back_s and not disturbed:
            found.append(("parser stays away", f"{end - span.end_s:.0f} s after {span.action} ({span.target})"))
    return found
