# SPDX-License-Identifier: Apache-2.0
"""python -m vlm_server.die_check: which dies it asks, each in which environment, and a process that breaks off.

tests/npu has the operators; they need torch.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from npu_smi import device_numbers
from tests.support.processes import PYTHONPATH
from thread_pools import MOST_ON_ASCEND, POOLS
from tool_errors import FAILED, DeviceError
from vlm_server.die_check import __main__ as die_check
from vlm_server.die_check.__main__ import check, check_all, environment


def devices(folder: Path, *names: str) -> Path:
    (folder / "dev").mkdir()
    for name in names:
        (folder / "dev" / name).touch()
    return folder / "dev"


def test_dies_are_numbered_as_their_files(tmp_path: Path):
    assert device_numbers(devices(tmp_path, "davinci10", "davinci2", "davinci_manager", "hisi_hdc")) == [2, 10]


def test_a_process_sees_its_die_only_and_writes_where_it_may(tmp_path: Path):
    env = {"ASCEND_RT_VISIBLE_DEVICES": "7", "STATE_DIR": "/var/lib/x", "LD_LIBRARY_PATH": "/cann"}
    own = environment(env, 3, tmp_path)
    assert own["ASCEND_RT_VISIBLE_DEVICES"] == "3" and own["LD_LIBRARY_PATH"] == "/cann"
    assert own["ASCEND_WORK_PATH"] == own["ASCEND_CACHE_PATH"] == str(tmp_path)
    assert own["ASCEND_PROCESS_LOG_PATH"] == "/var/lib/x/ascend-log/die-check"
    # A single mounted die is number 0 already.
    assert "ASCEND_RT_VISIBLE_DEVICES" not in environment(env, None, tmp_path)


def test_of_640_cores_there_are_not_as_many_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(640))
    own = environment({"HARDWARE": "ascend"}, 3, tmp_path)
    assert {name: own.get(name) for name in POOLS} == dict.fromkeys(POOLS, str(MOST_ON_ASCEND))


def test_without_a_die_it_says_so(tmp_path: Path):
    with pytest.raises(DeviceError, match="NPU_IDS must name dies"):
        list(check_all({"HARDWARE": "ascend"}, devices(tmp_path, "davinci_manager")))


def test_a_process_that_breaks_off_is_that_dies_problem_only(tmp_path: Path):
    """This environment has no torch, so every process ends while it imports it."""
    env = {**os.environ, "PYTHONPATH": PYTHONPATH, "HARDWARE": "ascend", "STATE_DIR": str(tmp_path)}
    found = list(check_all(env, devices(tmp_path, "davinci0", "davinci5")))
    assert [(die["kind"], die["die"]) for die in found] == [("npu", 0), ("npu", 5)]
    for die in found:
        assert die["findings"] == [] and die["problem"].startswith("the process ended with status 1: ModuleNotFound")


def test_a_process_that_hangs_ends_with_what_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A simulated torch that starts a compiler and waits for ever."""
    (tmp_path / "torch.py").write_text("import subprocess\nsubprocess.run(['sleep', '600'])\n")
    monkeypatch.setattr(die_check, "SECONDS", 1.0)
    found = check("npu", 3, {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{PYTHONPATH}"}, tmp_path)
    # The compiler has the pipe too: were it left, the pipe's end would not come.
    assert found["die"] == 3 and found["findings"] == [] and found["problem"] == "no answer within 1 s"


def simulated(hanging: set[int | None], asked: list[int | None]) -> Any:
    def found(kind: str, die: int | None, env: Mapping[str, str], folder: Path) -> dict[str, Any]:
        asked.append(die)
        assert folder.is_dir() and folder.is_relative_to(env["STATE_DIR"]), "a container's /tmp is noexec"
        problem = f"{die_check.NO_ANSWER} 600 s" if die in hanging else ""
        return {"kind": kind, "die": die, "seconds": 1.0, "findings": [], "problem": problem}

    return found


def test_after_the_second_die_that_hangs_the_others_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    asked: list[int | None] = []
    monkeypatch.setattr(die_check, "check", simulated({1, 3, 4}, asked))
    env = {"HARDWARE": "ascend", "STATE_DIR": str(tmp_path)}
    found = list(check_all(env, devices(tmp_path, *(f"davinci{number}" for number in range(6)))))
    assert asked == [0, 1, 2, 3] and [die["die"] for die in found] == [0, 1, 2, 3, 4, 5]
    assert [die["problem"] for die in found[4:]] == ["not checked, since the dies 1 and 3 hang"] * 2
    assert [bool(die["problem"]) for die in found] == [False, True, False, True, True, True]


def test_each_die_is_said_as_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture):
    """What was found is not lost with a die that takes all further time."""
    monkeypatch.setattr(die_check, "check", simulated({7}, []))
    given, said = (
        check_all({"HARDWARE": "ascend", "STATE_DIR": str(tmp_path)}, devices(tmp_path, "davinci2", "davinci7")),
        [],
    )

    def watched(env: Mapping[str, str]) -> Any:
        for die in given:
            yield die
            said.append(json.loads(capsys.readouterr().out)["die"])

    monkeypatch.setattr(die_check, "check_all", watched)
    assert die_check.main() == FAILED and said == [2, 7]
