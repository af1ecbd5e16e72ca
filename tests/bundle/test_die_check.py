# SPDX-License-Identifier: Apache-2.0
"""python -m vlm_server.die_check: which dies it asks, each in which environment, and a process that breaks off.

tests/npu has the operators; they need torch.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.processes import PYTHONPATH
from tool_errors import DeviceError
from vlm_server.die_check.__main__ import check_all, dies, environment


def devices(folder: Path, *names: str) -> Path:
    (folder / "dev").mkdir()
    for name in names:
        (folder / "dev" / name).touch()
    return folder / "dev"


def test_dies_are_numbered_as_their_files(tmp_path: Path):
    assert dies(devices(tmp_path, "davinci10", "davinci2", "davinci_manager", "hisi_hdc")) == [2, 10]


def test_a_process_sees_its_die_only_and_writes_where_it_may(tmp_path: Path):
    env = {"ASCEND_RT_VISIBLE_DEVICES": "7", "STATE_DIR": "/var/lib/x", "LD_LIBRARY_PATH": "/cann"}
    own = environment(env, 3, tmp_path)
    assert own["ASCEND_RT_VISIBLE_DEVICES"] == "3" and own["LD_LIBRARY_PATH"] == "/cann"
    assert own["ASCEND_WORK_PATH"] == own["ASCEND_CACHE_PATH"] == str(tmp_path)
    assert own["ASCEND_PROCESS_LOG_PATH"] == "/var/lib/x/ascend-log/die-check"
    # A single mounted die is number 0 already.
    assert "ASCEND_RT_VISIBLE_DEVICES" not in environment(env, None, tmp_path)


def test_without_a_die_it_says_so(tmp_path: Path):
    with pytest.raises(DeviceError, match="NPU_IDS must name dies"):
        check_all({"HARDWARE": "ascend"}, devices(tmp_path, "davinci_manager"))


def test_a_process_that_breaks_off_is_that_dies_problem_only(tmp_path: Path):
    """This environment has no torch, so every process ends while it imports it."""
    env = {**os.environ, "PYTHONPATH": PYTHONPATH, "HARDWARE": "ascend", "STATE_DIR": str(tmp_path)}
    found = check_all(env, devices(tmp_path, "davinci0", "davinci5"))
    assert found["kind"] == "npu" and [die["die"] for die in found["dies"]] == [0, 5]
    for die in found["dies"]:
        assert die["findings"] == [] and die["problem"].startswith("the process ended with status 1: ModuleNotFound")
