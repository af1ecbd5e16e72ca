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
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path

from .containers import engine_answers
from .environments import ENVIRONMENTS, set_up
from .errors import BundleError, exit_status
from .paths import ROOT
from .progress import say


@dataclass(frozen=True)
class Group:
    """One group of tests: pytest's interpreter, its paths, and the further environments that its tests start.

    `system_files` are files of the system that the tests read, each with the Debian package that brings it; `engine`
    says that a container engine is needed, one that answers or one that the tests can start; `options` are pytest's.
    """

    name: str
    environment: str
    paths: tuple[str, ...]
    also: tuple[str, ...] = ()
    system_files: tuple[tuple[str, str], ...] = ()
    engine: bool = False
    options: tuple[str, ...] = ()

    @property
    def missing(self) -> list[str]:
        """Debian packages without which the group cannot run."""
        packages = [package for file, package in self.system_files if not Path(file).exists()]
        if self.engine and not engine_answers():
            # As root, the tests unpack an engine and start it; see tests/support/engine.
            packages += ["docker.io"] if os.geteuid() else [name for name in ENGINE_PROGRAMS if not shutil.which(name)]
        return packages


# What must be installed before the tests can start an engine of their own.
ENGINE_PROGRAMS = ("runc", "iptables", "debootstrap")


# What the demo's pages are drawn with.
DRAWING = (
    ("/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf", "fonts-dejavu-core"),
    ("/usr/share/fonts/truetype/liberation/LiberationSans-Regular.ttf", "fonts-liberation"),
    ("/usr/share/dict/american-english", "wamerican"),
)

BROWSER = (("/usr/bin/chromium", "chromium"),)
COMPILER = (("/usr/bin/cc", "gcc"), ("/usr/bin/nm", "binutils"))

GROUPS = {group.name: group for group in (
    Group("bundle", "tools", ("tests/bundle",)),
    Group("parser", "parser", ("tests/parser",)),
    Group("jobs", "parser", ("tests/jobs",)),
    Group("web", "browser", ("tests/web",), also=("parser",), system_files=BROWSER),
    Group("api", "api", ("tests/api",), also=("parser",)),
    Group("plugin", "vlm", ("tests/plugin",), also=("reference",)),
    Group("tools", "client", ("tests/tools",), also=("parser",)),
    Group("reference", "reference", ("tests/reference",)),
    # The real torch_npu on stand-ins for CANN, which are compiled when the tests start.
    Group("npu", "npu", ("tests/npu/tower",), system_files=COMPILER),
    Group("npu-0.12", "npu-0.12", ("tests/npu/vllm_ascend",), system_files=COMPILER),
    Group("training", "reference", ("tests/demo_training/vlm",), system_files=DRAWING),
    Group("layout", "parser", tuple(f"tests/demo_training/{name}" for name in ("layout", "pages", "test_scores.py")),
          also=("reference",), system_files=DRAWING + BROWSER),
    Group("e2e", "tools", ("tests/e2e",), also=("vlm", "parser")),
    # Without pytest's capture: they take minutes, and each stage says what it took.
    Group("images", "tools", ("tests/images/cpu",), engine=True, options=("-s", "-v")),
    Group("images-ascend", "tools", ("tests/images/ascend",), engine=True, options=("-s", "-v")),
)}
UNIT = ("bundle", "parser", "jobs", "plugin", "tools", "reference")


@dataclass
class Tally:
    """Counts over all groups."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    broken: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def add(self, report: Path, group: str) -> int:
        """Add the counts of a JUnit report; returns how many tests it holds. A group that skips all of them is left out."""
        count, skipped_before = 0, self.skipped
        for suite in ElementTree.parse(report).getroot().iter("testsuite"):
            tests, failed, skipped = (int(suite.get(key, 0)) for key in ("tests", "failures", "skipped"))
            failed += int(suite.get("errors", 0))
            self.passed += tests - failed - skipped
            self.failed += failed
            self.skipped += skipped
            count += tests
        if count and self.skipped - skipped_before == count:
            reasons = {node.get("message", "") for node in ElementTree.parse(report).getroot().iter("skipped")}
            self.left_out.append(f"{group}: {'; '.join(sorted(reasons))}")
        return count


def chosen(asked: list[str]) -> list[Group]:
    """The groups behind the words of the command line, in the order of `GROUPS`."""
    names = {name for word in asked for name in {"all": tuple(GROUPS), "unit": UNIT}.get(word, (word,))}
    return [group for name, group in GROUPS.items() if name in names and not group.missing]


def run_group(group: Group, tally: Tally, options: list[str]) -> None:
    """Run one group; a group that collects nothing, or whose run breaks off, counts as broken."""
    for name in (group.environment, *group.also):
        set_up(ENVIRONMENTS[name])
    began, used = time.monotonic(), shutil.disk_usage(ROOT).used
    say(f"=== {group.name}: {' '.join(group.paths)} in the environment {group.environment}")
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [str(ENVIRONMENTS[group.environment].python), "-m", "pytest", f"--junitxml={report}", *group.options,
                   *options, *group.paths]
        status = run_pytest(command, env)
        count = tally.add(report, group.name) if report.is_file() else 0
    if status not in (0, 1) or not count:
        tally.broken.append(f"{group.name} (pytest ended with status {status}, {count} tests)")
    grown = (shutil.disk_usage(ROOT).used - used) / 2**30
    say(f"=== {group.name}: {time.monotonic() - began:.0f} s, {grown:+.1f} GiB of disk")


def run_pytest(command: list[str], env: dict[str, str]) -> int:
    """Run pytest; when we are told to end, it is interrupted, so that its fixtures stop what they started."""
    process = subprocess.Popen(command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL)
    try:
        return process.wait()
    except BaseException:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(timeout=120)
        except subprocess.TimeoutExpired:
            process.kill()
        raise


def left_out(asked: list[str], ran: list[Group]) -> list[str]:
    """What a run did not cover, each with the reason."""
    lines = [f"{group.name}: needs {' '.join(group.missing)} (apt-get install)" if group.missing
             else f"{group.name}: not asked for" for group in GROUPS.values() if group not in ran]
    if "unit" in asked:
        lines.append("tests marked slow: left out by `unit`")
    if not Path("/dev/davinci_manager").exists():
        lines.append("anything on an NPU: this machine has none")
    return lines


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/test.sh", usage="%(prog)s [-h] [GROUP ...] [OPTION OF PYTEST ...]",
                                     description="Run the tests. unit: what is quick, of several groups.")
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"all (default), unit, {', '.join(GROUPS)}")
    # From the first option on, words are pytest's.
    ours = list(itertools.takewhile(lambda word: not word.startswith("-") or word in ("-h", "--help"), words))
    asked, further = parser.parse_args(ours).groups or ["all"], words[len(ours):]
    if unknown := [word for word in asked if word not in ("unit", "all", *GROUPS)]:
        parser.error(f"unknown group {unknown[0]!r}; expected all, unit or of {', '.join(GROUPS)}")
    if "unit" in asked:
        further = ["-m", "not slow", *further]
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    began, tally, groups = time.monotonic(), Tally(), chosen(asked)
    try:
        for group in groups:
            run_group(group, tally, further)
    except BundleError as error:
        print(f"error: {error}", file=sys.stderr)
        return exit_status(error)
    except KeyboardInterrupt:
        return 130
    say(f"all groups: {time.monotonic() - began:.0f} s")
    for line in (*left_out(asked, groups), *tally.left_out):
        say(f"left out: {line}")
    for line in tally.broken:
        say(f"broken: {line}")
    print(f"{tally.passed} passed, {tally.failed + len(tally.broken)} failed, {tally.skipped} skipped", flush=True)
    return 1 if tally.failed or tally.broken or not tally.passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
