# SPDX-License-Identifier: Apache-2.0
"""Counts over all groups, from the reports that pytest writes."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Tally:
    """Counts of tests, groups that broke off or held no test, and what was left out; each of these with its reason.

    `unsteady` names the tests that failed and passed when they ran once more.
    """

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    broken: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    unsteady: list[str] = field(default_factory=list)

    def add(self, group: str, status: int, report: Path) -> int:
        """Add one group: pytest's exit status, and its JUnit report, which is missing where pytest did not get that
        far. Returns how many of its tests failed."""
        root = ElementTree.parse(report).getroot() if report.is_file() else ElementTree.Element("testsuites")
        tests, failures, errors, skipped = (
            sum(int(suite.get(key, 0)) for suite in root.iter("testsuite"))
            for key in ("tests", "failures", "errors", "skipped")
        )
        self.passed += tests - failures - errors - skipped
        self.failed += failures + errors
        self.skipped += skipped
        # 0: all passed, 1: some failed; anything else is not about single tests.
        if status not in (0, 1) or not tests:
            self.broken.append(f"{group} (pytest ended with status {status}, {tests} tests)")
        elif skipped == tests:
            reasons = {node.get("message", "") for node in root.iter("skipped")}
            self.left_out.append(f"{group}: {'; '.join(sorted(reasons))}")
        return failures + errors

    def add_second(self, group: str, report: Path) -> None:
        """Add a group's failed tests that ran once more: those that pass now count as passed, and are named."""
        if not report.is_file():
            return
        for case in ElementTree.parse(report).getroot().iter("testcase"):
            if case.find("failure") is None and case.find("error") is None and case.find("skipped") is None:
                self.failed -= 1
                self.passed += 1
                self.unsteady.append(f"{group}: {case.get('classname', '')}::{case.get('name', '')}")

    @property
    def good(self) -> bool:
        """Whether something ran and nothing went wrong."""
        return self.passed > 0 and not self.failed and not self.broken

    def __str__(self) -> str:
        """The last line of a run; a broken group counts as one failure."""
        return f"{self.passed} passed, {self.failed + len(self.broken)} failed, {self.skipped} skipped"
