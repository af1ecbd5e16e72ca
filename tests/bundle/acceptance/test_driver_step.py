# SPDX-License-Identifier: Apache-2.0
"""The step `driver` of scripts/acceptance.sh, by what a simulated npu-smi prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from bundle.acceptance import machine
from bundle.acceptance.steps import FAIL, PASS, WARN
from tests.bundle.acceptance.simulated_bundle import DATA, DrawnPages, node_at
from tests.support.simulated_docker import SimulatedDocker


@pytest.mark.server
def test_driver_and_dies_by_npu_smi(docker: SimulatedDocker, parser: DrawnPages, tmp_path: Path):
    table = (DATA / "npu-smi/a3.txt").read_text()
    program = tmp_path / "docker/bin/npu-smi"

    def say(text: str) -> None:
        program.write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\n")
        program.chmod(0o755)

    node = node_at(parser, HARDWARE="ascend")
    node.findings = [{"check": "driver", "level": "PASS", "found": "25.2.3"}]
    say(table)
    found = machine.driver(node)
    assert found.verdict == PASS and "3 dies; driver 25.2.3" in found.found, found
    assert {"map.txt", "0-health.txt", "0-ecc.txt"} <= set(node.outputs)
    say(table.replace("| OK ", "| Alarm ", 1))
    assert machine.driver(node).verdict == WARN and "each die alone: die 0 (Alarm)" in machine.driver(node).found
    say(table.replace("| OK ", "| Critical ", 1))
    assert machine.driver(node).verdict == FAIL and "not usable: die 0 (Critical)" in machine.driver(node).found
    # One that is left out by NPU_IDS is said, and fails nothing.
    spared = machine.driver(node_at(parser, HARDWARE="ascend", NPU_IDS="1-2"))
    assert spared.verdict == PASS and "not usable, and left out by NPU_IDS: die 0" in spared.found
    say((DATA / "npu-smi/a2.txt").read_text())
    assert "not A3 but A2" in machine.driver(node).found
    say("")
    assert machine.driver(node).verdict == FAIL


@pytest.mark.server
def test_the_driver_step_says_what_npu_smi_failed_with(docker: SimulatedDocker, parser: DrawnPages, tmp_path: Path):
    program = tmp_path / "docker/bin/npu-smi"
    program.write_text(f"#!/bin/sh\ncat {DATA}/npu-smi/fails-8005.txt >&2; exit 1\n")
    program.chmod(0o755)
    found = machine.driver(node_at(parser, HARDWARE="ascend"))
    assert found.verdict == FAIL and found.found.startswith("the driver does not let this process in (-8005); ")


@pytest.mark.server
def test_other_products_are_accepted_as_atlas_says(docker: SimulatedDocker, parser: DrawnPages, tmp_path: Path):
    program = tmp_path / "docker/bin/npu-smi"
    of_map = DATA / "npu-smi/map-a2.txt"
    program.write_text(f'#!/bin/sh\n[ "$2" != -m ] || exec cat {of_map}\ncat {DATA}/npu-smi/a2.txt\n')
    program.chmod(0o755)
    assert machine.driver(node_at(parser, HARDWARE="ascend", ATLAS="a2")).verdict == PASS
    # Without a map nobody is said to be sick, or left out.
    table = (DATA / "npu-smi/a2.txt").read_text().replace("| OK      ", "| Critical", 1)
    program.write_text(f'#!/bin/sh\n[ "$2" != -m ] || exit 1\ncat <<END\n{table}\nEND\n')
    found = machine.driver(node_at(parser, HARDWARE="ascend", ATLAS="a2"))
    assert found.verdict == WARN and "is not known" in found.found and "NPU 0 has the Health Critical" in found.found
    assert "left out" not in found.found
