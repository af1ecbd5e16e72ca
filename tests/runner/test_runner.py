# SPDX-License-Identifier: Apache-2.0
"""scripts/test.sh: its command line, groups, counts and reasons."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from bundle.paths import ROOT
from tests.runner import __main__ as runner
from tests.runner import groups
from tests.runner.tally import Tally
from tests.support import system_packages


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
    assert ended.value.code == 2 and "'prser'; expected unit, all, workshop or of images, rehearsal, " in said


def test_minutes_that_are_no_number_are_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setenv(runner.MINUTES, "soon")
    assert runner.main(["tools"]) == 2
    assert capsys.readouterr().err == "error: TEST_MINUTES is 'soon'; expected a number of minutes\n"
