# SPDX-License-Identifier: Apache-2.0
"""Which dies each half has: some are gone, are left out, or hold a layout server; cores go with their dies.

The engine and the driver are simulated (tests/support/simulated_dies.py).
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from bundle.compose import dies, division, upgrade
from container import cores
from tests.support.paths import ROOT
from tests.support.recorded_npu_smi import SAMPLES
from tests.support.simulated_dies import FIRST, SECOND, SimulatedDies, settings, table, without
from tool_errors import DeviceError, UsageError


def test_the_dies_of_fewer_replicas_are_halved(node: SimulatedDies, monkeypatch: pytest.MonkeyPatch, capsys):
    """VLM_REPLICAS leaves dies out. As many as before do not fit into a half, and vlm would be gone."""
    settings(node, monkeypatch, VLM_REPLICAS="12")
    upgrade.start(5, pause=True)
    assert node.dies == {"vlm": list(range(6)), "vlm-next": list(range(6, 12))}
    assert "set NPU_IDS=present and VLM_REPLICAS= in .env now" in capsys.readouterr().err
    settings(node, monkeypatch, NPU_IDS="present")
    upgrade.back(5, pause=False)
    assert node.dies == {"vlm": list(range(12))}
    assert "in .env" not in capsys.readouterr().err
    upgrade.must("up", "--detach", "vlm")
    assert node.dies == {"vlm": list(range(12))}, ".env is what the container was made by"


def test_back_leaves_out_a_die_that_is_gone(node: SimulatedDies, tmp_path: Path, capsys):
    """The engine makes no container with its device file, and vlm-next is removed by then: nothing would serve."""
    upgrade.start(5, pause=True)
    without(tmp_path, 12)
    upgrade.back(5, pause=False)
    assert node.dies == {"vlm": [number for number in range(16) if number != 12]}
    assert "die 12 is left out: no device file" in capsys.readouterr().err
    assert not dies.written_for(dies.PRESENT_NEXT)


def test_start_leaves_out_a_die_that_is_gone(node: SimulatedDies, tmp_path: Path, capsys):
    """15 of 16 replicas serve. With all device files of its half the engine would make no vlm, and nothing served."""
    without(tmp_path, 3)
    upgrade.start(5, pause=True)
    assert node.dies == {"vlm": [0, 1, 2, 4, 5, 6, 7, 8], "vlm-next": list(range(9, 16))}
    assert "die 3 is left out: no device file" in capsys.readouterr().err


def test_a_pair_leaves_out_a_die_that_is_gone(node: SimulatedDies, tmp_path: Path, capsys):
    upgrade.start(5, pause=True)
    upgrade.promote(5)
    node.build("sha256:newer")
    without(tmp_path, 12)
    upgrade.start(5, pause=False)
    assert node.dies == {"vlm": FIRST, "vlm-next": [8, 9, 10, 11, 13, 14, 15]}
    (tmp_path / "dev/davinci5").unlink()
    upgrade.promote(5)
    assert node.dies["vlm"] == [0, 1, 2, 3, 4, 6, 7]
    assert "die 5 is left out" in capsys.readouterr().err
    (tmp_path / "dev/davinci5").touch()
    (tmp_path / "dev/davinci12").touch()
    (tmp_path / "info").write_text(table(range(16)))
    upgrade.back(5, pause=False)
    assert node.dies == {"vlm": list(range(16))}, "dies that came back belong to it again"


def test_present_dies_are_divided_and_made_one_again_without_a_change_of_env(
    node: SimulatedDies, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
):
    """The boot unit looks at the dies of `vlm` meanwhile, and at all of them after `back`, those that were gone too."""
    settings(node, monkeypatch, NPU_IDS="present")
    monkeypatch.setattr(dies, "VALUES", upgrade.VALUES)
    without(tmp_path, 3)
    assert dies.main(["present"]) == 0
    node.build("sha256:old")
    upgrade.must("up", "--detach", "vlm")
    node.build("sha256:new")
    upgrade.start(5, pause=True)
    assert node.dies == {"vlm": [0, 1, 2, 4, 5, 6, 7, 8], "vlm-next": list(range(9, 16))}
    assert "in .env now" not in capsys.readouterr().err
    (tmp_path / "dev/davinci3").touch()
    (tmp_path / "info").write_text(table(range(16)))
    assert dies.main(["present"]) == 0
    upgrade.must("up", "--detach", "vlm")
    assert node.dies["vlm"] == list(range(9)), "its own die came back, and vlm-next keeps its dies"
    upgrade.back(5, pause=False)
    assert node.dies == {"vlm": list(range(16))}
    assert dies.looked_at(upgrade.VALUES) == "0-15" and dies.main(["present"]) == 0
    assert dies.given(upgrade.VALUES) == list(range(16))


def test_back_looks_at_the_dies_before_it_removes_anything(node: SimulatedDies, tmp_path: Path):
    upgrade.start(5, pause=True)
    before = node.containers
    for number in range(16):
        (tmp_path / f"dev/davinci{number}").rename(tmp_path / f"dev/gone{number}")
    with pytest.raises(DeviceError, match="none of the dies 0-15 can be used: die 0: no device file"):
        upgrade.back(5, pause=False)
    assert node.containers == before
    for number in range(16):
        (tmp_path / f"dev/gone{number}").rename(tmp_path / f"dev/davinci{number}")
    # A user whom the driver does not let in learns nothing of the dies, which is no reason to have none.
    (tmp_path / "info").write_text((SAMPLES / "fails-8005-user.txt").read_text())
    upgrade.back(5, pause=False)
    assert node.dies == {"vlm": list(range(16))}


def test_lists_of_cores_are_divided_like_the_dies(node: SimulatedDies, monkeypatch: pytest.MonkeyPatch):
    lists = [f"{40 * die}-{40 * die + 39}" for die in range(16)]
    settings(node, monkeypatch, VLM_CORES=";".join(lists[:8]))
    before = node.containers
    with pytest.raises(UsageError, match="a list for each of the 16 dies of vlm and vlm-next. Nothing was changed"):
        upgrade.start(5, pause=True)
    assert node.containers == before and not dies.written_for(dies.PRESENT)
    settings(node, monkeypatch, VLM_CORES=";".join(lists))
    upgrade.start(5, pause=True)
    found = []
    for name, own in node.dies.items():
        devices = devices_of(node, name)
        env = {"HARDWARE": "ascend", "VLM_REPLICAS": "8", "VLM_CORES": node.containers[name]["env"]["VLM_CORES"]}
        found += [cores.of_replica(env, index, range(640), devices)[0] for index in range(len(own))]
    assert [f"{one[0]}-{one[-1]}" for one in found] == lists


def devices_of(node: SimulatedDies, name: str) -> Path:
    """The device files that a container has."""
    folder = dies.FOLDER / f"devices-of-{name}"
    folder.mkdir()
    for number in node.dies[name]:
        (folder / f"davinci{number}").touch()
    return folder


@pytest.mark.parametrize(("device", "fits"), [("npu:15", False), ("npu:7", False), ("npu:6", True), ("npu", True)])
def test_a_layout_server_needs_a_die_of_both_halves(
    node: SimulatedDies, monkeypatch: pytest.MonkeyPatch, device: str, fits: bool
):
    settings(node, monkeypatch, VLM_REPLICAS="15", LAYOUT_SERVER="1", LAYOUT_DEVICE=device)
    before = node.containers
    if fits:
        upgrade.start(5, pause=True)
        return
    with pytest.raises(UsageError, match=f"LAYOUT_DEVICE is {device}; expected a die of both halves.*npu in .env"):
        upgrade.start(5, pause=True)
    assert node.containers == before


@pytest.mark.usefixtures("node")
def test_one_die_has_no_halves(tmp_path: Path):
    with pytest.raises(UsageError, match="one die cannot be halved"):
        division.halved([3], {})
    for number in range(1, 16):
        (tmp_path / f"dev/davinci{number}").unlink()
    with pytest.raises(UsageError, match="one die cannot be halved.*die 1: no device file"):
        division.halved(range(16), {})
    (tmp_path / "dev/davinci0").unlink()
    with pytest.raises(DeviceError, match="none of the dies 0-15 can be used: die 0: no device file"):
        division.halved(range(16), {})


def test_a_file_of_a_removed_vlm_next_takes_no_die_that_env_gives_away(
    node: SimulatedDies, monkeypatch: pytest.MonkeyPatch
):
    upgrade.start(5, pause=True)
    upgrade.promote(5)
    upgrade.must("rm", "--stop", "--force", "vlm-next")
    (dies.FOLDER / "0-7.yaml").write_text(dies.fragment("0-7"))
    settings(node, monkeypatch, NPU_IDS="0-7")
    upgrade.must("up", "--detach", "vlm")
    assert division.unserved(upgrade.project.containers(), upgrade.VALUES, "") == ""
    node.build("sha256:newer")
    upgrade.start(5, pause=True)
    assert node.dies == {"vlm": [0, 1, 2, 3], "vlm-next": [4, 5, 6, 7]}


@pytest.mark.usefixtures("node")
def test_a_die_that_is_gone_belongs_to_a_half_all_the_same(tmp_path: Path):
    """It may come back; only dies that VLM_REPLICAS leaves out belong to neither."""
    without(tmp_path, 15)
    assert division.halved(range(16), {"VLM_REPLICAS": "16"}) == {"vlm": FIRST, "vlm-next": SECOND}
    assert division.halved(range(16), {"VLM_REPLICAS": "4"}) == {"vlm": [0, 1], "vlm-next": [2, 3]}


@pytest.mark.parametrize("text", ["0", "0-7", "0,2,5", "4,5"])
def test_ids_are_written_as_they_are_read(text: str):
    assert dies.parse_ids(dies.ids(dies.parse_ids(text))) == dies.parse_ids(text)


@pytest.mark.parametrize("page", ["docs/run.md", "docs/zh-CN/run.md"])
def test_nothing_is_left_on_the_dies_while_the_driver_is_replaced(page: str):
    """Compose ends no container of a profile that is not named."""
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    with_driver = [one for one in services.values() if one.get("extends", {}).get("service") in ("vlm", "npu-exporter")]
    profiles = {profile for one in with_driver for profile in one.get("profiles", ())}
    (paragraph,) = [
        text
        for text in (ROOT / page).read_text().split("\n\n")
        if "preflight.sh" in text and "compose" in text and " down`" in text
    ]
    assert profiles == {"upgrade", "npu-exporter"} == set(re.findall(r"--profile ([\w-]+)", paragraph))
