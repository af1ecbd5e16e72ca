# SPDX-License-Identifier: Apache-2.0
"""scripts/test.sh: choose test groups, run each in its environment, and say what was left out and why."""

from __future__ import annotations

import argparse
import itertools
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from bundle.paths import RUN_DIR
from bundle.progress import say
from tests.runner.groups import DEFAULT, GROUPS, UNIT, WORKSHOP, Group
from tests.runner.lanes import Lanes
from tool_errors import ToolError

# After so many minutes no further group begins: for a machine that ends a run after a fixed time.
MINUTES = "TEST_MINUTES"
# Words for several groups.
TOGETHER = ("unit", "all", "workshop")


@dataclass(frozen=True)
class Choice:
    """What a command line asks for: groups, and pytest's options. `markers` is pytest's -m."""

    groups: list[Group]
    options: list[str]
    markers: str = ""

    @property
    def able(self) -> list[Group]:
        """Those that this machine can run."""
        return [group for group in self.groups if not group.missing]

    @property
    def everything(self) -> bool:
        """Whether all that `all` runs is asked for."""
        return all(group in self.groups for group in GROUPS.values() if not group.on_demand)

    def left_out(self) -> list[str]:
        """What the run does not cover, each with the reason."""
        lines = [
            f"{group.name}: needs {' '.join(group.missing)} (apt-get install)" for group in self.groups if group.missing
        ]
        if self.markers:
            lines.append(f"tests that `-m '{self.markers}'` does not choose")
        if others := [name for name, group in GROUPS.items() if group not in self.groups]:
            lines.append(f"groups that were not asked for: {', '.join(others)}")
        if not Path("/dev/davinci_manager").exists():
            lines.append("anything on an NPU: this machine has none")
        return lines


def choose(words: list[str]) -> Choice:
    """Read the command line: names of groups, then pytest's options from the first option on."""
    parser = argparse.ArgumentParser(
        prog="scripts/test.sh",
        usage="%(prog)s [-h] [unit|all|workshop|GROUP...] [OPTION OF PYTEST ...]",
        description="Run the tests. Without a name: the main tests of the product.",
    )
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"{', '.join(TOGETHER)}, or of {', '.join(GROUPS)}")
    own = list(itertools.takewhile(lambda word: not word.startswith("-") or word in ("-h", "--help"), words))
    asked, options = parser.parse_args(own).groups, words[len(own) :]
    if unknown := [word for word in asked if word not in (*TOGETHER, *GROUPS)]:
        parser.error(f"unknown group {unknown[0]!r}; expected {', '.join(TOGETHER)} or of {', '.join(GROUPS)}")
    if asked == ["unit"]:
        return Choice([GROUPS[name] for name in UNIT], ["-m", "unit", *options], "unit")
    if not asked:
        return Choice([GROUPS[name] for name in DEFAULT], ["-m", "not long", *options], "not long")
    chosen = [
        group
        for name, group in GROUPS.items()
        if name in asked or ("all" in asked and not group.on_demand) or ("workshop" in asked and name in WORKSHOP)
    ]
    return Choice(chosen, options)


def be_interruptible() -> None:
    """Let SIGTERM and SIGINT raise KeyboardInterrupt here, and SIGINT in pytest too.

    A shell that starts us in the background has SIGINT ignored, and pytest would inherit that.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)


def main(words: list[str]) -> int:
    choice = choose(words)
    be_interruptible()
    began = time.monotonic()
    text = os.environ.get(MINUTES) or "inf"
    try:
        minutes = float(text)
    except ValueError:
        print(f"error: {MINUTES} is {text!r}; expected a number of minutes", file=sys.stderr)
        return 2
    lanes = Lanes(choice.able, choice.options, RUN_DIR / "tests", minutes * 60)
    try:
        lanes.run()
    except ToolError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_status
    except KeyboardInterrupt:
        return 130
    tally = lanes.tally
    for line in (*choice.left_out(), *tally.left_out):
        say(f"left out: {line}")
    for group in lanes.unbegun:
        say(f"left out: {group.name}: {minutes:g} minutes were over ({MINUTES})")
    for line in tally.broken:
        say(f"broken: {line}")
    for line in tally.flaky:
        say(f"flaky: {line}: failed, and passed when it ran once more by itself")
    say(f"{len(choice.able) - len(lanes.unbegun)} groups in {(time.monotonic() - began) / 60:.1f} minutes")
    if not choice.everything:
        say("everything of the product: scripts/test.sh all")
    print(tally, flush=True)
    return 0 if tally.good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
