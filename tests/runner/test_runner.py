# SPDX-License-Identifier: Apache-2.0
"""scripts/test.sh: groups, counts, reasons, and signals."""

from __future__ import annotations

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
from tests.runner import __main__ as runner
from tests.runner import groups
from tests.runner.tally import Tally
from tests.support.engine.daemon import Engine
from tests.support.engine.packages import EngineError


def report(folder: Path, *cases: str) -> Path:
    """A JUnit report as pytest writes it; a case is `passed`, or the reason for which it was skipped."""
    rows = "".join(
        f'<testcase name="{number}"/>'
        if case == "passed"
        else f'<testcase name="{number}"><skipped message="{case}"/></testcase>'
        for number, case in enumerate(cases)
    )
    skipped = sum(case != "passed" for case in cases)
    path = folder / "report.xml"
    path.write_text(
        f'<testsuites><testsuite tests="{len(cases)}" failures="0" errors="0" skipped="{skipped}">{rows}'
        "</testsuite></testsuites>"
    )
    return path


@pytest.mark.parametrize(
    ("cases", "left_out"),
    [
        (("no engine", "no engine"), ["images: no engine"]),
        (("passed", "no engine"), []),
        (("passed",), []),
    ],
)
def test_a_group_that_is_skipped_as_a_whole_is_left_out(tmp_path: Path, cases: tuple[str, ...], left_out: list[str]):
    tally = Tally()
    tally.add("images", 0, report(tmp_path, *cases))
    skipped = sum(case != "passed" for case in cases)
    assert tally.left_out == left_out and str(tally) == f"{len(cases) - skipped} passed, 0 failed, {skipped} skipped"
    assert tally.good is (skipped < len(cases))


def test_a_group_without_tests_or_that_broke_off_is_a_failure(tmp_path: Path):
    tally = Tally()
    tally.add("bundle", 0, report(tmp_path, "passed"))
    assert tally.good
    tally.add("web", 5, report(tmp_path))
    tally.add("api", 4, tmp_path / "absent.xml")
    tally.add("jobs", 2, report(tmp_path, "passed"))
    assert tally.broken[:2] == [
        "web (pytest ended with status 5, 0 tests)",
        "api (pytest ended with status 4, 0 tests)",
    ]
    assert str(tally) == "2 passed, 3 failed, 0 skipped" and not tally.good


def test_every_test_file_belongs_to_a_group():
    paths = [ROOT / path for group in groups.GROUPS.values() for path in group.paths]
    without = [
        str(file.relative_to(ROOT))
        for file in ROOT.glob("tests/**/test_*.py")
        if not any(file == path or path in file.parents for path in paths)
    ]
    assert without == []


def test_what_an_engine_needs_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(groups, "engine_answers", lambda: False)
    monkeypatch.setattr(groups.shutil, "which", lambda name: None if name == "runc" else f"/usr/bin/{name}")
    monkeypatch.setattr(groups.os, "geteuid", lambda: 0)
    assert groups.GROUPS["images"].missing == ["runc"]
    monkeypatch.setattr(groups.os, "geteuid", lambda: 1000)
    assert groups.GROUPS["images"].missing == ["docker.io"]
    monkeypatch.setattr(groups, "engine_answers", lambda: True)
    assert groups.GROUPS["images"].missing == []


def test_groups_and_options_of_pytest_are_told_apart(monkeypatch: pytest.MonkeyPatch):
    ran: list[tuple[str, list[str]]] = []
    monkeypatch.setattr(
        runner.Run, "lane", lambda run, lane, aside: ran.extend((group.name, run._options) for group in lane)
    )
    for words, expected in (
        (["tools", "bundle", "-k", "damaged"], [("bundle", ["-k", "damaged"]), ("tools", ["-k", "damaged"])]),
        (["bundle"], [("bundle", [])]),
        (["unit", "--co"], [(name, ["-m", groups.UNIT_MARKERS, "--co"]) for name in groups.UNIT]),
        (["-x"], [(name, ["-x"]) for name, group in groups.GROUPS.items() if not group.missing]),
    ):
        ran.clear()
        runner.main(words)
        assert sorted(ran) == sorted(expected)


def test_an_unknown_group_is_refused(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        runner.main(["bundle", "prser"])
    assert (
        ended.value.code == 2
        and "unknown group 'prser'; expected all, unit or of bundle, types, parser" in capsys.readouterr().err
    )


UNSTEADY = """
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


def run_files(folder: Path, monkeypatch: pytest.MonkeyPatch, **files: str) -> Tally:
    """Run a group that consists of these files, in this environment."""
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(text)
    monkeypatch.setattr(runner, "set_up", lambda environment: None)
    monkeypatch.setattr(runner, "ENVIRONMENTS", {"this": SimpleNamespace(python=sys.executable)})
    place = folder / "run"
    place.mkdir(exist_ok=True)
    run = runner.Run([], place)
    runner.run_lanes(run, [[groups.Group("made_up", "this", (str(folder),), options=(f"--rootdir={folder}",))]])
    run.once_more()
    return run.tally


def test_what_failed_runs_once_more_by_itself_and_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tally = run_files(tmp_path, monkeypatch, unsteady=UNSTEADY, failing=FAILING.format(count=2))
    assert (tmp_path / "runs").read_text() == "x", "what passed did not run again"
    assert tally.unsteady == ["made_up: test_unsteady::test_that_fails_the_first_time"]
    assert str(tally) == "3 passed, 1 failed, 0 skipped" and not tally.good, "what fails twice stays failed"
    (tmp_path / "seen").unlink()
    (tmp_path / "test_failing.py").unlink()
    assert run_files(tmp_path, monkeypatch, unsteady=UNSTEADY).good


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
    assert tally.unsteady == ["made_up: test_fixture::test_that_fails_with_its_fixture_the_first_time"]


def test_many_failures_are_no_chance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    failing = FAILING.format(count=runner.AGAIN + 1)
    tally = run_files(tmp_path, monkeypatch, unsteady=UNSTEADY, failing=failing)
    assert tally.unsteady == [] and tally.failed == runner.AGAIN + 1


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


def test_containers_have_a_lane_beside_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    lanes = runner.lanes_of(list(groups.GROUPS.values()))
    assert [group.name for group in lanes[1]] == ["images", "images-ascend", "images-nodes", "images-chaos"]
    assert len(lanes) == 2
    assert len(runner.lanes_of([groups.GROUPS["bundle"], groups.GROUPS["jobs"]])) == 1
    at_work: list[object] = []

    def set_up(environment: object) -> None:
        assert not at_work, "both lanes make the same environment at once"
        at_work.append(environment)
        time.sleep(0.2)
        at_work.clear()

    monkeypatch.setattr(runner, "set_up", set_up)
    monkeypatch.setattr(runner, "ENVIRONMENTS", {"this": SimpleNamespace(python=sys.executable)})
    made = []
    for name, other in (("left", "right"), ("right", "left")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / f"test_{name}.py").write_text(MEETING.format(other=other))
        made.append(groups.Group(name, "this", (str(folder),), options=(f"--rootdir={folder}",)))
    run = runner.Run([], tmp_path)
    runner.run_lanes(run, [[made[0]], [made[1]]])
    assert str(run.tally) == "2 passed, 0 failed, 0 skipped"
    output = capfd.readouterr().out
    assert "test_left.py" in output and "test_right.py" in output


@contextmanager
def an_engine() -> Iterator[Engine]:
    yield Engine({"DOCKER_HOST": "unix:///run/of-a-test.sock"})


def test_where_only_containers_are_asked_for_the_builds_have_a_lane(monkeypatch: pytest.MonkeyPatch):
    lanes = runner.lanes_of([groups.GROUPS["images"], groups.GROUPS["images-ascend"]])
    assert [[group.name for group in lane] for lane in lanes] == [["images-ascend"], ["images"]]
    assert len(runner.lanes_of([groups.GROUPS["images-ascend"]])) == 1
    monkeypatch.setenv("DOCKER_HOST", "")
    monkeypatch.setattr(runner, "open_engine", an_engine)
    with runner.engine_for(lanes) as given:
        assert given == lanes and runner.os.environ["DOCKER_HOST"] == "unix:///run/of-a-test.sock"


def test_without_an_engine_for_both_there_is_one_lane(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(runner, "open_engine", MagicMock(side_effect=EngineError("none starts")))
    lanes = runner.lanes_of([groups.GROUPS["images"], groups.GROUPS["images-ascend"]])
    with runner.engine_for(lanes) as given:
        assert [group.name for lane in given for group in lane] == ["images", "images-ascend"] and len(given) == 1
    whole = runner.lanes_of(list(groups.GROUPS.values()))
    with runner.engine_for(whole) as given:
        assert given == whole, "one lane uses an engine: its tests start it"


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
        "import signal, sys; from pathlib import Path; from types import SimpleNamespace as Values\n"
        "from tests.runner import __main__ as runner; from tests.runner.groups import Group\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "runner.be_interruptible()\n"
        "runner.set_up = lambda environment: None\n"
        "runner.ENVIRONMENTS = {'this': Values(python=sys.executable)}\n"
        f"group = Group('made_up', 'this', ({str(tmp_path)!r},), options=({options}))\n"
        f"runner.run_lanes(runner.Run([], Path({str(tmp_path)!r})), [[group]])"
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
