# SPDX-License-Identifier: Apache-2.0
"""scripts/acceptance.sh on a simulated engine and a simulated parser: what runs, what is kept, and no secret gets out.

tests/images runs it on the real ones.
"""

from __future__ import annotations

import errno
import json
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from bundle.acceptance import __main__ as acceptance
from bundle.acceptance.__main__ import STEPS
from bundle.acceptance.node import Node, Options
from bundle.acceptance.steps import FAIL, PASS, SKIP, Outcome, Step, accepted, take
from bundle.compose import project
from bundle.support.redact import MARK
from tests.bundle.acceptance.simulated_bundle import KEY, TOKEN, node_at
from tests.support.paths import ROOT
from tests.support.simulated_docker import SimulatedDocker
from tests.support.simulated_parser import SimulatedParser


@pytest.fixture
def whole(docker: SimulatedDocker, tmp_path: Path) -> Callable[[], tuple[int, dict[str, str], str]]:
    """A function: run the script; status, files of the archive, everything that was printed."""

    def run() -> tuple[int, dict[str, str], str]:
        out = tmp_path / "acceptance.tar.gz"
        words = [str(ROOT / "scripts/acceptance.sh"), "--minutes", "0.001", "--wait", "0.01", "--out", str(out)]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=600)
        assert out.is_file(), done.stderr
        assert out.stat().st_mode & 0o777 == 0o600
        with tarfile.open(out) as archive:
            files = {
                member.name.partition("/")[2]: archive.extractfile(member).read().decode()  # type: ignore[union-attr]  # a regular file
                for member in archive
            }
        return done.returncode, files, done.stdout + done.stderr

    return run


@pytest.mark.server
def test_a_whole_run_names_each_step_and_keeps_each_output(docker: SimulatedDocker, whole):
    # The simulated parser has no metrics and says nothing of weights, which is no failure of a step.
    status, files, printed = whole()
    found = json.loads(files["report.json"])
    verdicts = {step["name"]: step["verdict"] for step in found["steps"]}
    assert list(verdicts) == [step.name for step in STEPS]
    assert verdicts == {
        **dict.fromkeys(verdicts, PASS),
        **dict.fromkeys(("driver", "ATB", "graph modes", "graph capture"), SKIP),
        "preflight": verdicts["preflight"],
    }, found
    assert status == (1 if verdicts["preflight"] == FAIL else 0) and found["accepted"] is (status == 0)
    assert files["report.md"] in printed and "should read is not recorded" in files["report.md"]
    named = {name for step in found["steps"] for name in step["files"]}
    assert named == set(files) - {"report.md", "report.json"} and "raw/03-each-die-alone/dies.json" in named
    assert not any("compose up" in call for call in docker.calls), "it runs already"


@pytest.mark.server
def test_no_planted_secret_gets_out(docker: SimulatedDocker, whole):
    docker.say("crop", f"PARSER_API_KEY is {KEY}\n", status=1, err=f"Authorization: Bearer {TOKEN}\n")
    docker.say("dies", "", status=1, err=f"https://me:{TOKEN}@proxy.example refused {KEY}\n")
    status, files, printed = whole()
    assert status == 1
    everything = "".join(files.values()) + printed
    assert KEY not in everything and TOKEN not in everything
    assert files["report.md"].count(MARK) >= 1 and MARK in files["raw/03-each-die-alone/dies.json.stderr"]
    # What came after still ran and still says something.
    later = {step["name"]: step["verdict"] for step in json.loads(files["report.json"])["steps"]}
    assert later["each die alone"] == later["one crop"] == FAIL and later["ten pages"] == later["load"] == PASS


def test_what_a_command_printed_before_its_time_was_over_is_kept(parser: SimulatedParser):
    node = node_at(parser)
    # Longer each time, until the shell has had the time to print.
    for seconds in (0.5, 2, 8, 32):
        with pytest.raises(project.NoAnswer, match="sh -c .* gave no answer within"):
            node.command("x.txt", "sh", "-c", "echo one; echo two >&2; exec sleep 600", timeout=seconds)
        if node.outputs["x.txt"]:
            break
    assert node.outputs["x.txt"] == "one\n" and node.outputs["x.txt.stderr"].startswith("two\n\nsh -c ")


def test_ctrl_c_keeps_what_there_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], docker: SimulatedDocker
):
    """Raw outputs, those of the step that was interrupted too, and a report that accepts nothing."""

    def found(node: Node) -> Outcome:
        node.keep("a.txt", "what the first step saw")
        return Outcome(PASS, "well")

    def interrupted(node: Node) -> Outcome:
        node.keep("b.txt", "half")
        raise KeyboardInterrupt

    steps = [Step("one", "x", found), Step("two", "x", interrupted), Step("three", "x", found)]
    monkeypatch.setattr(acceptance, "STEPS", steps)
    assert acceptance.main(["--out", str(tmp_path / "a.tar.gz")]) == 130
    assert "NOT ACCEPTED: 1 pass, 1 fail" in capsys.readouterr().out
    with tarfile.open(tmp_path / "a.tar.gz") as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert names == {"raw/01-one/a.txt", "raw/02-two/b.txt", "report.md", "report.json"}


def test_a_report_is_printed_although_the_archive_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], docker: SimulatedDocker
):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(acceptance, "STEPS", [Step("one", "x", lambda node: Outcome(PASS, "well"))])
    monkeypatch.setattr(tarfile.TarFile, "addfile", full)
    with pytest.raises(OSError, match="No space left"):
        acceptance.main(["--out", str(tmp_path / "a.tar.gz")])
    assert "ACCEPTED: 1 pass" in capsys.readouterr().out and not list(tmp_path.glob("a.tar*"))


def test_what_a_step_raises_is_its_failure(parser: SimulatedParser):
    def broken(node: Node) -> Outcome:
        return Outcome(PASS, json.loads("{}")["missing"])

    record, outputs = take(Step("broken step", "nothing", broken), 7, node_at(parser))
    assert record.verdict == FAIL and "an answer cannot be understood (KeyError" in record.found
    assert record.files == list(outputs) == ["raw/07-broken-step/error.txt"]


def test_nothing_passed_is_not_accepted():
    skipped = take(Step("s", "x", lambda node: Outcome(SKIP, "")), 1, Node({}, Options(0, 0), ""))[0]
    assert not accepted([skipped]) and not accepted([])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--minutes", "0"], "--minutes"),
        (["--minutes", "two"], "--minutes"),
        (["--minutes", "nan"], "--minutes"),
        (["--out", "/nowhere/at/all.tar.gz"], "/nowhere/at/all.tar.gz: No such file"),
        (["--out", "/etc/hostname/a.tar.gz"], "/etc/hostname/a.tar.gz: Not a directory"),
        (["--out", "/usr"], "--out /usr: is a folder; expected the name of a file, like /usr/acceptance-"),
    ],
)
def test_arguments_that_cannot_be_used(words: list[str], said: str):
    command = [str(ROOT / "scripts/acceptance.sh"), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 2 and said in done.stderr
