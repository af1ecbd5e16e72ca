# SPDX-License-Identifier: Apache-2.0
"""scripts/test.sh: every test file belongs to a group, and a group that was skipped as a whole is named with its reason."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import ROOT

from bundle import testing


def report(folder: Path, *cases: str) -> Path:
    """A JUnit report as pytest writes it; a case is `passed`, or the reason for which it was skipped."""
    rows = "".join("<testcase/>" if case == "passed" else f'<testcase><skipped message="{case}"/></testcase>' for case in cases)
    skipped = sum(case != "passed" for case in cases)
    path = folder / "report.xml"
    path.write_text(f'<testsuites><testsuite tests="{len(cases)}" failures="0" errors="0" skipped="{skipped}">{rows}'
                    "</testsuite></testsuites>")
    return path


@pytest.mark.parametrize(("cases", "left_out"), [
    (("no engine", "no engine"), ["images: no engine"]), (("passed", "no engine"), []), (("passed",), []),
])
def test_a_group_that_is_skipped_as_a_whole_is_left_out(tmp_path: Path, cases: tuple[str, ...], left_out: list[str]):
    tally = testing.Tally()
    assert tally.add(report(tmp_path, *cases), "images") == len(cases)
    assert tally.left_out == left_out and tally.skipped == sum(case != "passed" for case in cases)


def test_every_test_file_belongs_to_a_group():
    paths = [ROOT / path for group in testing.GROUPS.values() for path in group.paths]
    without = [str(file.relative_to(ROOT)) for file in ROOT.glob("tests/**/test_*.py")
               if not any(file == path or path in file.parents for path in paths)]
    assert without == []


def test_what_an_engine_needs_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(testing, "engine_answers", lambda: False)
    monkeypatch.setattr(testing.shutil, "which", lambda name: None if name == "runc" else f"/usr/bin/{name}")
    monkeypatch.setattr(testing.os, "geteuid", lambda: 0)
    assert testing.GROUPS["images"].missing == ["runc"]
    monkeypatch.setattr(testing.os, "geteuid", lambda: 1000)
    assert testing.GROUPS["images"].missing == ["docker.io"]
    monkeypatch.setattr(testing, "engine_answers", lambda: True)
    assert testing.GROUPS["images"].missing == []


def test_groups_and_options_of_pytest_are_told_apart(monkeypatch: pytest.MonkeyPatch):
    ran = []
    monkeypatch.setattr(testing, "run_group", lambda group, tally, options: ran.append((group.name, options)))
    for words, expected in (
        (["tools", "bundle", "-k", "damaged"], [("bundle", ["-k", "damaged"]), ("tools", ["-k", "damaged"])]),
        (["bundle"], [("bundle", [])]),
        (["-x"], [(name, ["-x"]) for name, group in testing.GROUPS.items() if not group.missing]),
    ):
        ran.clear()
        testing.main(words)
        assert ran == expected


def test_an_unknown_group_is_refused(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        testing.main(["bundle", "prser"])
    assert ended.value.code == 2 and "unknown group 'prser'; expected all, unit or of bundle, parser" in capsys.readouterr().err
