# SPDX-License-Identifier: Apache-2.0
"""Everything that happens, as JSON lines with the time; and the violations, which are what the run is about."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType


@dataclass(frozen=True)
class Violation:
    """Something that must not happen. `kind` groups them in the report; `at_s` counts from the journal's begin."""

    kind: str
    words: str
    at_s: float


@dataclass(frozen=True)
class Span:
    """An action from its first effect to its end, in seconds since the journal's begin.

    `marks` say what it may excuse, see `faults.field`. `ready_s` is the time from its end until the bundle was ready;
    None where the next action came first. `failed` says why it could not be carried out.
    """

    number: int
    action: str
    target: str
    begin_s: float
    end_s: float
    marks: frozenset[str] = frozenset()
    ready_s: float | None = None
    failed: str = ""

    def meets(self, begin_s: float, end_s: float) -> bool:
        return self.begin_s <= end_s and begin_s <= self.end_s


@dataclass
class Journal:
    """Threads may write to it at the same time. Times are monotonic: nothing here follows a clock that jumps."""

    path: Path
    violations: list[Violation] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._file = self.path.open("w", encoding="utf-8")

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._file.close()

    def now(self) -> float:
        """Seconds since the journal's begin."""
        return time.monotonic() - self._began

    def note(self, what: str, **facts: object) -> None:
        """Write one line."""
        line = {"s": round(self.now(), 3), "at": datetime.now(UTC).isoformat(timespec="milliseconds"), "what": what}
        with self._lock:
            if not self._file.closed:
                self._file.write(json.dumps({**line, **facts}, ensure_ascii=True, default=str) + "\n")
                self._file.flush()

    def violation(self, kind: str, words: str) -> None:
        found = Violation(kind, words[:600], self.now())
        self.note("violation", kind=kind, words=found.words)
        with self._lock:
            self.violations.append(found)

    def span(self, span: Span) -> None:
        """An action has ended."""
        self.note("action", **{**vars(span), "marks": sorted(span.marks)})
        with self._lock:
            self.spans.append(span)
