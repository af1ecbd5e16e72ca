# SPDX-License-Identifier: Apache-2.0
"""scripts/test.sh: run test groups, each in its environment, and say what was left out and why."""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bundle.environments.setup import ENVIRONMENTS, set_up
from bundle.paths import ROOT
from bundle.progress import say
from tests.runner.groups import GROUPS, UNIT, UNIT_MARKERS, Group
from tests.runner.pytest_runs import PytestRuns
from tests.runner.tally import Tally
from tests.support.engine.opened import open_engine
from tests.support.engine.packages import EngineError
from tool_errors import ToolError

# A group with so many failures at most runs these once more (docs/decisions/0416-lanes-and-second-runs.md).
AGAIN = 4


class Run:
    """One call of scripts/test.sh: its groups, what they came to, and what of them has to run once more."""

    def __init__(self, options: list[str], folder: Path) -> None:
        self.tally = Tally()
        self.pytest = PytestRuns()
        self._options = options
        self._folder = folder
        self._again: list[Group] = []
        self._setting_up = threading.Lock()  # both lanes begin with the same environment

    def lane(self, groups: list[Group], aside: bool) -> None:
        """Run groups one after the other. `aside`: what pytest prints is shown when its group has ended."""
        for group in groups:
            if self.pytest.ended:
                return
            for name in (group.environment, *group.also):
                with self._setting_up:
                    set_up(ENVIRONMENTS[name])
            began, used = time.monotonic(), shutil.disk_usage(ROOT).used
            say(f"=== {group.name}: {' '.join(group.paths)} in the environment {group.environment}")
            status, report = self._call(group, "first", aside)
            failed = self.tally.add(group.name, status, report)
            if status == 1 and failed <= AGAIN:
                self._again.append(group)
            grown = (shutil.disk_usage(ROOT).used - used) / 2**30
            say(f"=== {group.name}: {time.monotonic() - began:.0f} s, {grown:+.1f} GiB of disk")

    def once_more(self) -> None:
        """Run what failed by itself, when nothing else is at work."""
        for group in self._again:
            say(f"=== {group.name}: what failed runs once more")
            _, report = self._call(group, "second", False, "--last-failed")
            self.tally.add_second(group.name, report)

    def _call(self, group: Group, which: str, aside: bool, *words: str) -> tuple[int, Path]:
        """pytest's status and the place of its report."""
        place = self._folder / group.name
        place.mkdir(exist_ok=True)
        report = place / f"{which}.xml"
        # A cache of the group's own: it knows which tests failed.
        own = ["-o", f"cache_dir={place}/cache", f"--junitxml={report}", *words]
        command = [str(ENVIRONMENTS[group.environment].python), "-m", "pytest", *own]
        command += [*group.options, *self._options, *group.paths]
        if not aside:
            return self.pytest.run(command), report
        with (place / "output").open("w+b") as output:
            status = self.pytest.run(command, output)
            output.seek(0)
            sys.stdout.write(output.read().decode(errors="replace"))
            sys.stdout.flush()
        return status, report


def run_lanes(run: Run, lanes: list[list[Group]]) -> None:
    """Run the lanes side by side, the last one live. Raises ToolError when an environment cannot be made."""
    with ThreadPoolExecutor(len(lanes)) as threads:
        try:
            futures = [threads.submit(run.lane, lane, lane is not lanes[-1]) for lane in lanes]
            for future in as_completed(futures):
                future.result()
        except BaseException:
            run.pytest.end()
            raise


def lanes_of(groups: list[Group]) -> list[list[Group]]:
    """Groups that may run side by side. Containers are built and started for most of an hour, mostly on one core: they
    have a lane of their own, and where nothing else runs, a lane for those that only build."""
    containers = [group for group in groups if group.engine]
    others = [group for group in groups if not group.engine] or [group for group in containers if group.builds]
    return [lane for lane in (others, [group for group in containers if group not in others]) if lane]


@contextmanager
def engine_for(lanes: list[list[Group]]) -> Iterator[list[list[Group]]]:
    """One container engine for all lanes, where several want one; gives the lanes, a single one where none starts."""
    if sum(any(group.engine for group in lane) for lane in lanes) < 2:
        yield lanes
        return
    with ExitStack() as stack:
        try:
            engine = stack.enter_context(open_engine())
        except EngineError:  # the tests say why
            lanes = [[group for lane in reversed(lanes) for group in lane]]
        else:
            os.environ.update(engine.environment)
        yield lanes


def be_interruptible() -> None:
    """Let SIGTERM and SIGINT raise KeyboardInterrupt here, and SIGINT in pytest too.

    A shell that starts us in the background has SIGINT ignored, and pytest would inherit that.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)


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
    began, groups = time.monotonic(), chosen(asked)
    try:
        with tempfile.TemporaryDirectory() as folder:
            run = Run(options, Path(folder))
            with engine_for(lanes_of(groups)) as lanes:
                run_lanes(run, lanes)
                run.once_more()
    except ToolError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_status
    except KeyboardInterrupt:
        return 130
    tally = run.tally
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
