# SPDX-License-Identifier: Apache-2.0
"""scripts/test.sh: run test groups, each in its environment, and say what was left out and why."""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bundle.environments.setup import ENVIRONMENTS, set_up
from bundle.paths import ROOT
from bundle.progress import say
from tests.runner.groups import GROUPS, UNIT, UNIT_MARKERS, Group
from tests.runner.tally import Tally
from tool_errors import ToolError

# How long the fixtures of an interrupted group may take to stop their services.
STOP_SECONDS = 120
# A group with so many failures at most runs these once more (docs/decisions/0416-a-failed-test-runs-once-more.md).
AGAIN = 4


def run_group(group: Group, tally: Tally, options: list[str]) -> None:
    """Run one group and add it to the tally. Raises ToolError when an environment cannot be made."""
    for name in (group.environment, *group.also):
        set_up(ENVIRONMENTS[name])
    began, used = time.monotonic(), shutil.disk_usage(ROOT).used
    say(f"=== {group.name}: {' '.join(group.paths)} in the environment {group.environment}")
    with tempfile.TemporaryDirectory() as folder:
        report, second = Path(folder) / "report.xml", Path(folder) / "second.xml"
        # A cache of the group's own: it knows which tests failed.
        pytest = [str(ENVIRONMENTS[group.environment].python), "-m", "pytest", "-o", f"cache_dir={folder}/cache"]
        words = [*group.options, *options, *group.paths]
        status = run_pytest([*pytest, f"--junitxml={report}", *words])
        failed = tally.add(group.name, status, report)
        if status == 1 and failed <= AGAIN:
            say(f"=== {group.name}: what failed runs once more, by itself")
            run_pytest([*pytest, f"--junitxml={second}", "--last-failed", *words])
            tally.add_second(group.name, second)
    grown = (shutil.disk_usage(ROOT).used - used) / 2**30
    say(f"=== {group.name}: {time.monotonic() - began:.0f} s, {grown:+.1f} GiB of disk")


def be_interruptible() -> None:
    """Let SIGTERM and SIGINT raise KeyboardInterrupt here, and SIGINT in pytest too.

    A shell that starts us in the background has SIGINT ignored, and pytest would inherit that.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)


def run_pytest(command: list[str]) -> int:
    """Run pytest and return its status. When we are told to end, pytest is interrupted: its fixtures stop what they
    started."""
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    process = subprocess.Popen(command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL)
    try:
        return process.wait()
    except BaseException:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
        raise


def chosen(asked: list[str]) -> list[Group]:
    """The groups behind the words of the command line, in the order of `GROUPS`."""
    names = {name for word in asked for name in {"all": tuple(GROUPS), "unit": UNIT}.get(word, (word,))}
    return [group for name, group in GROUPS.items() if name in names and not group.missing]


def left_out(asked: list[str], ran: list[Group]) -> list[str]:
    """What a run does not cover, each with the reason."""
    lines = [
        f"{group.name}: needs {' '.join(group.missing)} (apt-get install)"
        if group.missing
        else f"{group.name}: not asked for"
        for group in GROUPS.values()
        if group not in ran
    ]
    if "unit" in asked:
        lines.append(f"tests outside `-m '{UNIT_MARKERS}'`: left out by `unit`")
    if not Path("/dev/davinci_manager").exists():
        lines.append("anything on an NPU: this machine has none")
    return lines


def parse(words: list[str]) -> tuple[list[str], list[str]]:
    """The groups that the command line names, and pytest's options: from the first option on, all words are
    pytest's."""
    parser = argparse.ArgumentParser(
        prog="scripts/test.sh",
        usage="%(prog)s [-h] [GROUP ...] [OPTION OF PYTEST ...]",
        description="Run the tests. unit: what is quick, of several groups.",
    )
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"all (default), unit, {', '.join(GROUPS)}")
    own = list(itertools.takewhile(lambda word: not word.startswith("-") or word in ("-h", "--help"), words))
    asked, options = parser.parse_args(own).groups or ["all"], words[len(own) :]
    if unknown := [word for word in asked if word not in ("unit", "all", *GROUPS)]:
        parser.error(f"unknown group {unknown[0]!r}; expected all, unit or of {', '.join(GROUPS)}")
    return asked, ["-m", UNIT_MARKERS, *options] if "unit" in asked else options


def main(words: list[str]) -> int:
    asked, options = parse(words)
    be_interruptible()
    began, tally, groups = time.monotonic(), Tally(), chosen(asked)
    try:
        for group in groups:
            run_group(group, tally, options)
    except ToolError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_status
    except KeyboardInterrupt:
        return 130
    say(f"all groups: {time.monotonic() - began:.0f} s")
    for line in (*left_out(asked, groups), *tally.left_out):
        say(f"left out: {line}")
    for line in tally.broken:
        say(f"broken: {line}")
    for line in tally.unsteady:
        say(f"unsteady: {line}: failed, and passed when it ran once more by itself")
    print(tally, flush=True)
    return 0 if tally.good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
