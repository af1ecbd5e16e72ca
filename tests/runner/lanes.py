# SPDX-License-Identifier: Apache-2.0
"""Lanes that take test groups from one list and run them side by side (docs/decisions/0407)."""

from __future__ import annotations

import math
import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bundle.environments.setup import ENVIRONMENTS, set_up
from bundle.progress import say
from tests.runner.groups import REHEARSAL, UNIT, Group
from tests.runner.pytest_runs import PytestRuns
from tests.runner.tally import EARLIER, Tally, passed
from tests.support.engine.opened import open_engine
from tests.support.engine.packages import EngineError

# Tests of services wait for time limits, and builds wait for disks: three groups keep two cores busy.
LANES = 3
# A group with so many failures at most runs these once more.
AGAIN = 4
# pytest's status where no test is left to run.
NO_TEST = 5
# How the names of reports end.
FIRST, SECOND = ".first.xml", ".second.xml"
# Below the logs: the reports of what the rehearsal ran in its bare root.
REHEARSED = "rehearsed"
# Seconds between two lines that say how far the groups are.
TICK_SECONDS = 30.0
PERCENT = re.compile(rb"\[ *(\d+)%\]")


class Lanes:
    """One call of scripts/test.sh: its groups, what they came to, and what of them has to run once more.

    Where there are several groups, the output of each goes to `logs`/<group>.log, and is shown if a test failed. After
    `begin_within_s` no group begins; `unbegun` are those that did not.
    """

    def __init__(self, groups: list[Group], options: list[str], logs: Path, begin_within_s: float = math.inf) -> None:
        self.tally = Tally()
        self.pytest = PytestRuns()
        self.unbegun: list[Group] = []
        self._last_begin = time.monotonic() + begin_within_s
        self._waiting = list(groups)
        self._options = options
        self._logs = logs
        self._live = len(groups) == 1
        self._taken: list[Group] = []
        self._running: list[str] = []
        self._again: list[Group] = []
        self._taking = threading.Lock()
        self._setting_up = threading.Lock()
        self._engine = OneEngine()

    def run(self) -> None:
        """Run all groups, then what failed once more. Raises ToolError when an environment cannot be made."""
        self._logs.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(self._logs / REHEARSED, ignore_errors=True)
        try:
            with self._progress(), ThreadPoolExecutor(LANES) as threads:
                lanes = [threads.submit(self._lane) for _ in range(LANES)]
                try:
                    for lane in as_completed(lanes):
                        lane.result()
                except BaseException:
                    self.pytest.end()
                    raise
            for group in self._again:
                say(f"=== {group.name}: what failed runs once more, by itself")
                _, report = self._call(group, SECOND, "--last-failed")
                self.tally.add_second(group.name, report)
        finally:
            self._engine.close()

    def _take(self, done: Group | None = None) -> Group | None:
        """The next group of the list that waits for no other: the lane that runs the other takes it then, and this one
        ends where nothing else is left. `done` is what this lane has run."""
        with self._taking:
            if done:
                self._taken.remove(done)
            if time.monotonic() > self._last_begin:
                self.unbegun += self._waiting
                self._waiting.clear()
            group = next((group for group in self._waiting if not self._waits(group)), None)
            if group is None or self.pytest.ended:
                return None
            self._waiting.remove(group)
            self._taken.append(group)
            return group

    def _waits(self, group: Group) -> bool:
        """One group at a time uses the CPU images. Groups whose quick tests the rehearsal runs wait for its reports."""
        if group.cpu_images and any(other.cpu_images for other in self._taken):
            return True
        return group.name in UNIT and any(other.name == REHEARSAL for other in (*self._waiting, *self._taken))

    def _lane(self) -> None:
        group = None
        while group := self._take(group):
            if group.engine:
                self._engine.open()
            with self._setting_up:  # several lanes may begin with the same environment
                for name in (group.environment, *group.also):
                    set_up(ENVIRONMENTS[name])
            say(f"=== {group.name}: {' '.join(group.paths)} in the environment {group.environment}")
            began = time.monotonic()
            status, report = self._call(group, FIRST)
            earlier = self._earlier(group)
            if earlier and status == NO_TEST:
                status = 0
            counts = self.tally.add(group.name, status, report, earlier)
            if status == 1 and counts.failed <= AGAIN and not group.on_demand:
                self._again.append(group)
            rehearsed = f" ({len(passed(earlier))} in the rehearsal)" if earlier else ""
            say(f"=== {group.name}: {counts}{rehearsed}, {time.monotonic() - began:.0f} s")
            if status and not self._live:
                sys.stdout.write(self._log(group.name).read_text(errors="replace"))
                sys.stdout.flush()

    def _call(self, group: Group, which: str, *words: str) -> tuple[int, Path]:
        """pytest's status and the place of its report."""
        report = self._logs / f"{group.name}{which}"
        report.unlink(missing_ok=True)
        # A cache of the group's own: it knows which tests failed.
        own = ["-o", f"cache_dir={self._logs / 'cache' / group.name}", f"--junitxml={report}", *words]
        command = [str(ENVIRONMENTS[group.environment].python), "-m", "pytest", *own]
        command += [*group.options, *self._options, *group.paths]
        env = self._engine.environment if group.engine else os.environ
        if earlier := self._earlier(group):
            env = {**env, EARLIER: str(earlier)}
        if self._live or which == SECOND:
            return self.pytest.run(command, env, group.allowed), report
        self._running.append(group.name)
        try:
            with self._log(group.name).open("wb") as output:
                return self.pytest.run(command, env, group.allowed, output), report
        finally:
            self._running.remove(group.name)

    def _earlier(self, group: Group) -> Path | None:
        """The report of the group's tests that the rehearsal of this call ran."""
        report = self._logs / REHEARSED / f"{group.name}.xml"
        return report if report.is_file() else None

    def _log(self, name: str) -> Path:
        return self._logs / f"{name}.log"

    @contextmanager
    def _progress(self) -> Iterator[None]:
        """Say every TICK_SECONDS which groups run, and how far they are."""
        ended = threading.Event()

        def tick() -> None:
            while not ended.wait(TICK_SECONDS):
                if running := [f"{name} {percent(self._log(name))}" for name in list(self._running)]:
                    say(f"    running: {', '.join(running)}; {len(self._waiting)} groups wait")

        thread = threading.Thread(target=tick, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def percent(log: Path) -> str:
    """How far pytest says that it is, from the end of its output."""
    with log.open("rb") as stream:
        stream.seek(max(0, log.stat().st_size - 4096))
        found = PERCENT.findall(stream.read())
    return f"{found[-1].decode()} %" if found else "0 %"


class OneEngine:
    """One container engine for all groups that need one, from the first of them until the end of the run.

    `environment` is what reaches it. Where none can be started, it is this process's own, and the tests say why.
    """

    def __init__(self) -> None:
        self.environment: Mapping[str, str] = os.environ
        self._opening = threading.Lock()
        self._opened: ExitStack | None = None

    def open(self) -> None:
        """Start it where that was not tried yet, beside the lanes that make environments."""
        with self._opening:
            if self._opened is None:
                self._opened = ExitStack()
                try:
                    self.environment = self._opened.enter_context(open_engine()).environment
                except EngineError as error:
                    say(f"no container engine: {error}")

    def close(self) -> None:
        if self._opened:
            self._opened.close()
