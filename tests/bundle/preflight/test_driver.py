# SPDX-License-Identifier: Apache-2.0
"""The driver, its files, and who may use them."""

from __future__ import annotations

from pathlib import Path

import pytest

from bundle.preflight import driver
from npu_smi import Answer
from tests.bundle.preflight.node import Node, by_check


@pytest.mark.parametrize(
    ("values", "found", "level", "remedy"),
    [
        ({}, "25.2.2", "WARN", "update Ascend HDK to 25.2.3 if containers do not find devices"),
        ({"STACK": "9.9"}, "25.2.2", "WARN", "update Ascend HDK to 25.2.3 if containers do not find devices"),
        ({"STACK": "0.23.0"}, "25.2.3", "FAIL", "update Ascend HDK to 25.5.1, or set STACK=0.11.1 in .env"),
        ({"STACK": "0.23.0"}, "25.5.0", "FAIL", "update Ascend HDK to 25.5.1, or set STACK=0.11.1 in .env"),
        # The default stack serves none.
        ({"STACK": "0.23.0", "ATLAS": "310p"}, "25.5.0", "FAIL", "update Ascend HDK to 25.5.1"),
        ({"STACK": "0.23.0"}, "25.5.1", "PASS", ""),
        ({"STACK": "0.23.0"}, "26.0.rc1", "PASS", ""),
    ],
)
def test_a_driver_older_than_the_stacks(tmp_path: Path, values: dict[str, str], found: str, level: str, remedy: str):
    """Upstream asks for 25.5.1 with CANN 9.1. With the default stack an older one may do."""
    node = Node(tmp_path, "310p" if "ATLAS" in values else "a3", **values)
    node.put("/usr/local/Ascend/driver/version.info", f"Version={found}\n")
    driver = by_check(node)["driver"]
    assert driver.level == level and driver.found.startswith(found) and driver.remedy == remedy


def test_an_npu_smi_at_another_place(tmp_path: Path):
    node = Node(tmp_path, "a3")
    node.path(driver.NPU_SMI).rename(node.path(driver.NPU_SMI).with_name("moved"))
    assert by_check(node)["driver files"].found == "/usr/local/bin/npu-smi is missing"
    node.put(driver.ELSEWHERE, "")
    assert by_check(node)["driver files"].remedy == "as root: ln -s /usr/local/sbin/npu-smi /usr/local/bin/npu-smi"


def test_an_npu_smi_that_this_user_may_not_run(tmp_path: Path):
    """The container may: that is judged by ASCEND_GID."""
    node = Node(tmp_path, "a3")
    node.npu["info",] = Answer(None, "this user may not run /usr/local/bin/npu-smi (Permission denied)", forbidden=True)
    found = by_check(node)
    assert found["npu-smi"].level == "WARN" and found["npu-smi"].remedy.startswith("sudo scripts/preflight.sh")
    assert found["group"].level == "PASS"


def test_device_files_for_all_users_need_no_group(tmp_path: Path):
    node = Node(tmp_path, "a3", ASCEND_GID="54321")
    for path in node.path("/dev").iterdir():
        path.chmod(0o666)
    assert by_check(node)["group"].level == "PASS"
    node.path(driver.NPU_SMI).chmod(0o750)
    assert "chgrp 54321 /usr/local/bin/npu-smi" in by_check(node)["group"].remedy
    node.path("/dev/davinci1").chmod(0o660)
    assert by_check(node)["group"].remedy == f"set ASCEND_GID={node.group} in .env"
