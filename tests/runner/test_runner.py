# SPDX-License-Identifier: Apache-2.0
"""scripts/test.sh: groups, counts, reasons, and signals."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from bundle.paths import ROOT
from tests.runner import __main__ as runner
from tests.runner import groups, lanes
from tests.runner.tally import Tally
from tests.support import system_packages
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
        (("no engine", "no engine"), ["images: 2 tests: no engine"]),
        (("passed", "no engine", "no disk"), ["images: 1 test: no disk", "images: 1 test: no engine"]),
        (("passed",), []),
    ],
)
def test_what_was_skipped_is_left_out_by_its_reason(tmp_path: Path, cases: tuple[str, ...], left_out: list[str]):
    tally = Tally()
    counts = tally.add("images", 0, report(tmp_path, *cases))
    passed = cases.count("passed")
    assert tally.left_out == left_out and str(counts) == str(tally)
    assert str(tally) == f"{passed} passed, 0 failed, {len(cases) - passed} skipped" and tally.good is (passed > 0)


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


@pytest.mark.parametrize("group", groups.GROUPS.values(), ids=lambda group: group.name)
def test_a_group_names_the_environments_that_its_tests_start(group: groups.Group):
    """So that no test is left out where its group runs by itself."""
    places = [ROOT / path for path in group.paths]
    files = [file for place in places for file in (place.rglob("*.py") if place.is_dir() else [place])]
    started = {
        name: file.name
        for file in files
        for name in re.findall(r"""(?:python_of|run_module)\("([\w.-]+)\"""", file.read_text())
        if file != Path(__file__)
    }
    # The second stack's environment, where its own group runs the file.
    own = {group.environment, *group.also, "vlm-0.23"}
    assert started.keys() <= own, started


def test_what_an_engine_needs_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(groups, "engine_answers", lambda: False)
    monkeypatch.setattr(system_packages, "found", lambda sign: None if sign == "runc" else sign)
    monkeypatch.setattr(groups.os, "geteuid", lambda: 0)
    assert groups.GROUPS["images"].missing == ["runc"]
    monkeypatch.setattr(groups.os, "geteuid", lambda: 1000)
    assert groups.GROUPS["images"].missing == ["docker.io"]
    monkeypatch.setattr(groups, "engine_answers", lambda: True)
    assert groups.GROUPS["images"].missing == []


def test_groups_name_packages_that_ci_installs():
    named = {package for group in groups.GROUPS.values() for package in group.allowed}
    assert named == set(system_packages.signs()), "tests/system_packages.txt and tests/runner/groups.py differ"


@pytest.mark.parametrize("name", groups.GROUPS)
def test_files_of_the_system_that_a_groups_tests_name_come_from_its_packages(name: str):
    """Programs are watched while tests run (tests/support/system_packages.py); files are searched for here."""
    group = groups.GROUPS[name]
    places = [ROOT / path for path in group.paths]
    files = {file for place in places for file in (place.rglob("*.py") if place.is_dir() else [place])}
    assert strays(files, group.allowed) == set()


def test_files_of_the_system_that_tests_share_come_from_a_package():
    assert strays(set((ROOT / "tests/support").rglob("*.py")), system_packages.signs()) == set()


def strays(files: set[Path], packages: Iterable[str]) -> set[str]:
    """Files of the system that no package of these brings."""
    brought = [path for package in packages for path in system_packages.programs()[package] if path.startswith("/")]
    known = "|".join(
        # What each Debian has, and the folder of PostgreSQL's sign.
        [re.escape(path).replace(r"\*", "[^/]+") for path in brought]
        + [r"/usr/share/keyrings/debian-archive-keyring\.gpg", "/usr/lib/postgresql"]
    )
    return {
        f"{file.relative_to(ROOT)}: {path}"
        for file in files
        for path in re.findall(r"""["'](/usr/(?:share|lib|include)/[^"']+)""", file.read_text())
        if not re.fullmatch(known, path) and file != Path(__file__)
    }


def test_the_runner_needs_no_package_of_python():
    """It makes the environments that have them."""
    command = [sys.executable, "-S", "-m", "tests.runner", "-h"]
    path = os.pathsep.join(map(str, (ROOT, ROOT / "operations", ROOT / "common")))
    done = subprocess.run(command, cwd=ROOT, env={"PYTHONPATH": path}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


ASKED = [
    (["tools", "bundle", "-k", "damaged"], {"bundle", "tools"}, ["-k", "damaged"]),
    (["bundle"], {"bundle"}, []),
    (["unit", "--co"], set(groups.UNIT), ["-m", "unit", "--co"]),
    (["-x"], set(groups.DEFAULT), ["-m", "not long", "-x"]),
    (["all"], set(groups.GROUPS) - {"plugin-newest", "plugin-0.23-whole", *groups.WORKSHOP}, []),
    (["workshop"], set(groups.WORKSHOP), []),
    (["plugin-newest"], {"plugin-newest"}, []),
]


# Ids that are the same in the rehearsal and outside, where a set has another order.
@pytest.mark.parametrize(
    ("words", "names", "options"), ASKED, ids=lambda value: " ".join(sorted(value) if isinstance(value, set) else value)
)
def test_groups_and_options_of_pytest_are_told_apart(words: list[str], names: set[str], options: list[str]):
    choice = runner.choose(words)
    assert {group.name for group in choice.groups} == names and choice.options == options
    assert choice.everything is (words == ["all"]), "the last lines name the command for the rest"


def test_the_default_needs_no_root_no_engine_and_no_package():
    for group in map(groups.GROUPS.get, groups.DEFAULT):
        assert group and not group.engine and (not group.packages or group.name == "web")
    assert set(groups.UNIT) <= set(groups.DEFAULT)


def test_an_unknown_group_is_refused(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        runner.main(["bundle", "prser"])
    said = capsys.readouterr().err
    assert ended.value.code == 2 and "'prser'; expected unit, all, workshop or of images, rehearsal, plugin" in said


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
    (folder := Path({logs!r}) / "rehearsed").mkdir()
    shutil.copy({report!r}, folder / "tools.xml")
"""
QUICK = """
import os
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
    made[1] = dataclasses.replace(made[1], options=(*made[1].options, "-k", "passed"))
    assert str(run_groups(tmp_path, monkeypatch, *made)) == "4 passed, 0 failed, 0 skipped", "none is left to run"


def test_no_group_begins_after_its_time(tmp_path: Path):
    asked = [groups.GROUPS[name] for name in ("tools", "types")]
    run = lanes.Lanes(list(asked), [], tmp_path, begin_within_s=-1)
    run.run()
    assert run.unbegun == asked and not run.tally.good


def test_minutes_that_are_no_number_are_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setenv(runner.MINUTES, "soon")
    assert runner.main(["tools"]) == 2
    assert capsys.readouterr().err == "error: TEST_MINUTES is 'soon'; expected a number of minutes\n"


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
