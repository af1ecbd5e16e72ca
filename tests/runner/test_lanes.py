# SPDX-License-Identifier: Apache-2.0
"""Lanes: which group runs when, what runs once more, what the rehearsal ran, one engine, and signals."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from bundle.paths import ROOT
from tests.runner import groups, lanes
from tests.runner.tally import Tally
from tests.support import system_packages
from tests.support.engine.daemon import Engine
from tests.support.engine.packages import EngineError

FLAKY = """
from pathlib import Path

def test_that_fails_the_first_time():
    seen = Path(__file__).parent / "seen"
    before = seen.exists()
    seen.touch()
    assert before

def test_that_passes():
    runs = Path(__file__).parent / "runs"
    runs.write_text(runs.read_text() + "x" if runs.exists() else "x")
"""
FAILING = """
import pytest

@pytest.mark.parametrize("number", range({count}))
def test_that_fails(number):
    assert not number
"""


def run_groups(folder: Path, monkeypatch: pytest.MonkeyPatch, *made: groups.Group) -> Tally:
    """Run groups in this environment."""
    monkeypatch.setattr(lanes, "set_up", lambda environment: None)
    monkeypatch.setattr(lanes, "ENVIRONMENTS", {"this": SimpleNamespace(python=sys.executable)})
    run = lanes.Lanes(list(made), [], folder / "logs")
    run.run()
    return run.tally


def run_files(folder: Path, monkeypatch: pytest.MonkeyPatch, **files: str) -> Tally:
    """Run a group that consists of these files."""
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(text)
    return run_groups(folder, monkeypatch, made_up("made_up", folder))


def made_up(name: str, folder: Path) -> groups.Group:
    return groups.Group(name, "this", (str(folder),), options=(f"--rootdir={folder}",))


def test_what_failed_runs_once_more_by_itself_and_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tally = run_files(tmp_path, monkeypatch, flaky=FLAKY, failing=FAILING.format(count=2))
    assert (tmp_path / "runs").read_text() == "x", "what passed did not run again"
    assert tally.flaky == ["made_up: test_flaky::test_that_fails_the_first_time"]
    assert str(tally) == "3 passed, 1 failed, 0 skipped" and not tally.good, "what fails twice stays failed"


BROKEN_FIXTURE = """
import pytest
from pathlib import Path

@pytest.fixture
def place():
    yield Path(__file__).parent / "seen"
    assert (Path(__file__).parent / "torn_down").exists()

def test_that_fails_with_its_fixture_the_first_time(place):
    before = place.exists()
    place.touch()
    if before:
        (place.parent / "torn_down").touch()
    assert before
"""


def test_a_test_that_fails_with_its_fixture_is_one_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tally = run_files(tmp_path, monkeypatch, fixture=BROKEN_FIXTURE)
    assert str(tally) == "1 passed, 0 failed, 0 skipped" and tally.good
    assert tally.flaky == ["made_up: test_fixture::test_that_fails_with_its_fixture_the_first_time"]


def test_many_failures_are_no_chance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    failing = FAILING.format(count=lanes.AGAIN + 1)
    tally = run_files(tmp_path, monkeypatch, flaky=FLAKY, failing=failing)
    assert tally.flaky == [] and tally.failed == lanes.AGAIN + 1


MEETING = """
import time
from pathlib import Path

def test_that_waits_for_the_other_lane():
    here = Path(__file__).parent
    (here / "met").touch()
    deadline = time.monotonic() + 120
    while not (here.parent / "{other}" / "met").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
"""


def test_two_groups_run_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    made = []
    for name, other in (("left", "right"), ("right", "left")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / f"test_{name}.py").write_text(MEETING.format(other=other))
        made.append(made_up(name, folder))
    monkeypatch.setattr(lanes, "TICK_SECONDS", 0.1)
    assert str(run_groups(tmp_path, monkeypatch, *made)) == "2 passed, 0 failed, 0 skipped"
    told = capfd.readouterr()
    assert "=== left: 1 passed" in told.err and "running: " in told.err
    assert "test_left.py" not in told.out, "the output of what passed is in its log"
    assert "test_left.py" in (tmp_path / "logs/left.log").read_text()


def test_environments_are_made_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    at_work: list[object] = []

    def set_up(environment: object) -> None:
        assert not at_work, "two lanes make the same environment at once"
        at_work.append(environment)
        time.sleep(0.2)
        at_work.clear()

    (tmp_path / "test_nothing.py").write_text("def test_nothing():\n    pass\n")
    monkeypatch.setattr(lanes, "set_up", set_up)
    monkeypatch.setattr(lanes, "ENVIRONMENTS", {"this": SimpleNamespace(python=sys.executable)})
    run = lanes.Lanes([made_up("one", tmp_path), made_up("two", tmp_path)], [], tmp_path / "logs")
    run.run()
    assert str(run.tally) == "2 passed, 0 failed, 0 skipped"


def test_one_group_at_a_time_uses_the_cpu_images():
    """The others are begun in the order of the list."""
    images, nodes, ascend, bundle = (
        groups.GROUPS[name] for name in ("images", "images-nodes", "images-ascend", "bundle")
    )
    run = lanes.Lanes([images, nodes, ascend, bundle], [], Path("logs"))
    assert [run._take() for _ in range(4)] == [images, ascend, bundle, None]
    assert run._take(bundle) is None and run._take(images) == nodes


def test_groups_wait_for_the_rehearsal_that_runs_their_quick_tests():
    rehearsal, parser, images = (groups.GROUPS[name] for name in (groups.REHEARSAL, "parser", "images"))
    run = lanes.Lanes([parser, rehearsal, images], [], Path("logs"))
    assert [run._take() for _ in range(3)] == [rehearsal, images, None]
    assert run._take(images) is None and run._take(rehearsal) == parser


REHEARSAL = """
import shutil
from pathlib import Path

def test_commands():
    folder = Path({logs!r}) / "rehearsed"
    folder.mkdir()
    shutil.copy({report!r}, folder / "tools.xml")
"""
QUICK = """
import pytest

@pytest.mark.parametrize("name", ["a", "b::c[d]"])
def test_that_passes(name):
    {first}

class TestClass:
    def test_that_passes(self):
        {first}

    def test_that_lacks_something(self):
        {second}
"""
NOT_CHOSEN = """
import os

def test_that_starts_a_server():
    assert "EARLIER_REPORT" not in os.environ
"""


def test_what_passed_in_the_rehearsal_counts_and_is_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    places = {name: tmp_path / name for name in ("inside", "rehearsal", "outside")}
    for folder in places.values():
        folder.mkdir()
    (places["inside"] / "test_quick.py").write_text(QUICK.format(first="pass", second="pytest.skip('no font')"))
    run_groups(places["inside"], monkeypatch, made_up("tools", places["inside"]))
    report, logs = places["inside"] / "logs/tools.first.xml", tmp_path / "logs"
    (places["rehearsal"] / "test_it.py").write_text(REHEARSAL.format(logs=str(logs), report=str(report)))
    (places["outside"] / "test_quick.py").write_text(QUICK.format(first="assert False, 'ran again'", second="pass"))
    made = [made_up(groups.REHEARSAL, places["rehearsal"]), made_up("tools", places["outside"])]
    made[1] = dataclasses.replace(made[1], options=(*made[1].options, "-p", "tests.conftest"))
    capfd.readouterr()
    # 1 of the rehearsal, 3 of its bare root, and the one that was skipped there.
    assert str(run_groups(tmp_path, monkeypatch, *made)) == "5 passed, 0 failed, 0 skipped"
    assert "=== tools: 4 passed, 0 failed, 0 skipped (3 in the rehearsal)" in capfd.readouterr().err
    (places["outside"] / "test_quick.py").write_text(NOT_CHOSEN)
    assert str(run_groups(tmp_path, monkeypatch, *made)) == "5 passed, 0 failed, 0 skipped"
    (places["outside"] / "test_quick.py").write_text(QUICK.format(first="assert False", second="assert False"))
    made[1] = dataclasses.replace(made[1], options=(*made[1].options, "-k", "passes"))
    assert str(run_groups(tmp_path, monkeypatch, *made)) == "4 passed, 0 failed, 0 skipped", "none is left to run"


def test_no_group_begins_after_its_time(tmp_path: Path):
    asked = [groups.GROUPS[name] for name in ("tools", "types")]
    run = lanes.Lanes(list(asked), [], tmp_path, begin_within_s=-1)
    run.run()
    assert run.unbegun == asked and not run.tally.good


@contextmanager
def an_engine() -> Iterator[Engine]:
    yield Engine({"DOCKER_HOST": "unix:///run/of-a-test.sock"})


def test_all_groups_share_one_engine(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]):
    """Those that need none see none."""
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    opened = MagicMock(side_effect=an_engine)
    monkeypatch.setattr(lanes, "open_engine", opened)
    engine = lanes.OneEngine()
    for _ in range(2):
        engine.open()
    assert engine.environment["DOCKER_HOST"] == "unix:///run/of-a-test.sock" and "DOCKER_HOST" not in os.environ
    opened.assert_called_once()
    engine.close()
    monkeypatch.setattr(lanes, "open_engine", MagicMock(side_effect=EngineError("none starts")))
    engine = lanes.OneEngine()
    engine.open()
    assert engine.environment is os.environ and "no container engine: none starts" in capfd.readouterr().err


NAMED = """
import os

def test_what_reaches_it():
    assert os.environ.get("DOCKER_HOST") == {expected!r}
"""


def test_a_group_with_an_engine_runs_in_its_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setattr(lanes, "open_engine", an_engine)
    made = []
    for name, expected in (("with", "unix:///run/of-a-test.sock"), ("without", None)):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"test_{name}.py").write_text(NAMED.format(expected=expected))
        made.append(dataclasses.replace(made_up(name, tmp_path / name), engine=expected is not None))
    assert str(run_groups(tmp_path, monkeypatch, *made)) == "2 passed, 0 failed, 0 skipped"


@system_packages.needs("openssl")
@pytest.mark.parametrize(
    ("named", "refused"), [(None, []), ("", ["openssl"]), ("haproxy", ["openssl"]), ("openssl curl", [])]
)
def test_a_program_that_the_group_does_not_name_cannot_be_started(
    tmp_path: Path, named: str | None, refused: list[str]
):
    """`dd` is in every Debian."""
    (tmp_path / "test_it.py").write_text(
        "import pytest, subprocess\n\n"
        "@pytest.mark.parametrize('program', ['dd', 'openssl'])\n"
        "def test_it(program):\n    subprocess.run([program, '--help'])\n"
    )
    env = {key: value for key, value in os.environ.items() if key != "TEST_PACKAGES"}
    env |= {} if named is None else {"TEST_PACKAGES": named}
    (tmp_path / "conftest.py").write_text(
        "from tests.support import system_packages as it; it.refuse_unnamed_programs()"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-rf", str(tmp_path), f"--rootdir={tmp_path}"]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert re.findall(r"^FAILED .*\[(\w+)\]", done.stdout, re.MULTILINE) == refused, done.stdout
    assert ("names no package that brings it" in done.stdout) is bool(refused)


INTERRUPTED = """
import time
import pytest

@pytest.fixture
def service():
    yield
    (__import__("pathlib").Path(__file__).parent / "stopped").touch()

def test_that_takes_long(service):
    print("started", flush=True)
    time.sleep(60)
    (__import__("pathlib").Path(__file__).parent / "finished").touch()
"""


def test_fixtures_stop_their_services_when_the_runner_is_told_to_end(tmp_path: Path):
    """Also where the runner was started with SIGINT ignored, as a shell starts what it runs in the background."""
    (tmp_path / "test_interrupted.py").write_text(INTERRUPTED)
    options = f"'-s', '--rootdir={tmp_path}'"
    code = (
        "import signal; from pathlib import Path; from types import SimpleNamespace as Values\n"
        "from tests.runner import __main__ as runner, lanes; from tests.runner.groups import Group\n"
        "import sys; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "runner.be_interruptible()\n"
        "lanes.set_up = lambda environment: None\n"
        "lanes.ENVIRONMENTS = {'this': Values(python=sys.executable)}\n"
        f"group = Group('made_up', 'this', ({str(tmp_path)!r},), options=({options}))\n"
        f"lanes.Lanes([group], [], Path({str(tmp_path)!r}) / 'logs').run()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    with process:
        assert process.stdout
        while b"started" not in process.stdout.readline():
            assert process.poll() is None
        process.terminate()
        process.stdout.read()
        assert process.wait(timeout=30) != 0
    assert (tmp_path / "stopped").exists() and not (tmp_path / "finished").exists()
