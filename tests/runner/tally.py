# SPDX-License-Identifier: Apache-2.0
"""Counts over all groups, from the reports that pytest writes."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

# Tells a group's pytest which report has the tests that it need not run again (tests/conftest.py).
EARLIER = "EARLIER_REPORT"
# A test as reports name it: the place, which is the module and the classes with dots between, and the name.
Case = tuple[str, str]


class Counts(NamedTuple):
    """How the tests of one group ended."""

    passed: int
    failed: int
    skipped: int

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def tests(count: int) -> str:
    return "1 test" if count == 1 else f"{count} tests"


@dataclass
class Tally:
    """Counts of tests, groups that broke off or held no test, and the tests that were skipped, by reason.

    `flaky` names the tests that failed and passed when they ran once more.
    """

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    broken: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    flaky: list[str] = field(default_factory=list)

    def add(self, group: str, status: int, report: Path, earlier: Path | None = None) -> Counts:
        """Add one group: pytest's exit status, and its JUnit report, which is missing where pytest did not get that
        far. `earlier` is the report of a run whose passed tests were not run again: they count as passed. Returns the
        group's own counts."""
        before = {case: ("passed", "") for case in passed(earlier)} if earlier else {}
        outcomes = before | read_report(report)
        number = Counter(outcome for outcome, _ in outcomes.values())
        counts = Counts(number["passed"], number["failed"], number["skipped"])
        self.passed += counts.passed
        self.failed += counts.failed
        self.skipped += counts.skipped
        # 0: all passed, 1: some failed; anything else is not about single tests.
        if status not in (0, 1) or not outcomes:
            self.broken.append(f"{group} (pytest ended with status {status}, {len(outcomes)} tests)")
        reasons = Counter(reason for outcome, reason in outcomes.values() if outcome == "skipped")
        self.left_out += [f"{group}: {tests(count)}: {reason}" for reason, count in sorted(reasons.items())]
        return counts

    def add_second(self, group: str, report: Path) -> None:
        """Add a group's failed tests that ran once more: those that pass now count as passed, and are named."""
        for (place, name), (outcome, _) in read_report(report).items():
            if outcome == "passed":
                self.failed -= 1
                self.passed += 1
                self.flaky.append(f"{group}: {place}::{name}")

    @property
    def good(self) -> bool:
        """Whether something ran and nothing went wrong."""
        return self.passed > 0 and not self.failed and not self.broken

    def __str__(self) -> str:
        """The last line of a run; a broken group counts as one failure."""
        return str(Counts(self.passed, self.failed + len(self.broken), self.skipped))


def passed(report: Path) -> set[Case]:
    """The tests that passed."""
    return {case for case, (outcome, _) in read_report(report).items() if outcome == "passed"}


def case_of(nodeid: str) -> Case:
    """The test with this pytest id. Reports write control characters otherwise, so a test with some is not found."""
    path, bracket, parameters = nodeid.partition("[")
    file, *places = path.split("::")
    *classes, name = places
    return ".".join([file.removesuffix(".py").replace("/", "."), *classes]), name + bracket + parameters


def read_report(report: Path) -> dict[Case, tuple[str, str]]:
    """Each test with its outcome (passed, failed or skipped), and the reason of what was skipped. One entry a test:
    pytest writes a test that fails and whose fixture fails after it as two cases."""
    found: dict[Case, tuple[str, str]] = {}
    for case in ElementTree.parse(report).getroot().iter("testcase") if report.is_file() else ():
        key = case.get("classname", ""), case.get("name", "")
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            found[key] = "failed", ""
        elif key not in found:
            found[key] = ("passed", "") if skipped is None else ("skipped", skipped.get("message", ""))
    return found
