# SPDX-License-Identifier: Apache-2.0
"""scripts/upgrade.sh on dies that belong to one container: nothing changes unasked, and the halves are disjoint.

The engine and the driver are simulated (tests/support/simulated_dies.py). tests/images/cpu/test_upgrade.py has the real
engine, where both containers see the same core sets.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from bundle.compose import upgrade
from container import take_half
from tests.support.paths import ROOT
from tests.support.recorded_npu_smi import SAMPLES
from tests.support.simulated_dies import FIRST, SECOND, SimulatedDies, settings
from tool_errors import ServiceError, UsageError


def test_nothing_is_changed_before_the_pause_was_agreed_to(node: SimulatedDies):
    before = node.containers
    with pytest.raises(
        UsageError, match=r"device-share is off.*start --pause.*npu-smi set -t device-share -i NPU -d 1"
    ):
        upgrade.start(1, pause=False)
    assert node.containers == before and not any("take_half" in call or " up " in call for call in node.state["calls"])


def test_an_older_driver_that_does_not_say_counts_as_off(node: SimulatedDies, tmp_path: Path):
    (tmp_path / "share").write_text("This device does not support querying device-share.\n")
    with pytest.raises(UsageError, match="device-share is off or unknown"):
        upgrade.start(1, pause=False)


def test_the_second_container_would_meet_the_drivers_refusal(node: SimulatedDies):
    """What happened before: vlm-next with the dies that vlm holds."""
    with pytest.raises(ServiceError, match="vlm-next ended: error: another container holds the dies"):
        upgrade.start_container("vlm-next", 1)


def test_each_container_gets_its_half_and_the_pair_stays(node: SimulatedDies):
    upgrade.start(5, pause=True)
    assert node.dies == {"vlm": FIRST, "vlm-next": SECOND}
    both = node.containers
    assert (both["vlm"]["image"], both["vlm-next"]["image"]) == ("sha256:old", "sha256:new")
    assert both["vlm-next"]["half"] == "all" and both["vlm-next"]["aliases"] == ["vlm", "vlm-next"]
    upgrade.promote(5)
    assert node.dies == {"vlm": FIRST, "vlm-next": SECOND}
    assert {one["image"] for one in node.containers.values()} == {"sha256:new"}
    # The next version: no pause is asked for, and vlm is never made anew while the other half is away.
    node.build("sha256:newer")
    upgrade.start(5, pause=False)
    assert [one["image"] for one in node.containers.values()] == ["sha256:new", "sha256:newer"]
    assert node.dies == {"vlm": FIRST, "vlm-next": SECOND}


def test_while_both_run_compose_may_be_told_to_bring_vlm_up(node: SimulatedDies, capsys):
    """By hand or at boot, with the line for .env that the script gave; without it vlm meets vlm-next's dies."""
    upgrade.start(5, pause=True)
    [line] = [line for line in capsys.readouterr().err.splitlines() if "in .env now" in line]
    upgrade.must("up", "--detach", "vlm")
    assert upgrade.project.containers()["vlm"]["State"] == "restarting"
    node.change(env={"NPU_IDS": line.partition("NPU_IDS=")[2].split()[0]})
    upgrade.must("up", "--detach", "vlm")
    assert node.dies == {"vlm": FIRST, "vlm-next": SECOND}
    upgrade.promote(5)


def test_while_two_versions_run_there_is_no_third(node: SimulatedDies):
    upgrade.start(5, pause=True)
    node.build("sha256:newer")
    with pytest.raises(UsageError, match="vlm-next is there already"):
        upgrade.start(5, pause=True)


@pytest.mark.parametrize("tagged_back", [False, True])
def test_back_makes_one_container_of_the_version_before(node: SimulatedDies, tagged_back: bool, capsys):
    upgrade.start(5, pause=True)
    capsys.readouterr()
    if tagged_back:
        node.build("sha256:old")
    upgrade.back(5, pause=False)
    assert node.dies == {"vlm": list(range(16))} and node.containers["vlm"]["image"] == "sha256:old"
    said = capsys.readouterr().err
    assert (
        "vlm keeps the previous version; tag its image back" in said
    ) != tagged_back and "because promote" not in said


def test_the_version_before_keeps_its_settings(node: SimulatedDies):
    """.env is of the new version by then, and the one before may refuse it: nothing would serve."""
    # The second one is a setting that the version before has never heard of.
    node.change(env={"STACK": "0.23.0", "VLM_GRAPH_MODE": "full_decode_only", "VLM_NEWER": "1"})
    upgrade.start(5, pause=True)
    modes = {name: one["env"].get("VLM_GRAPH_MODE") for name, one in node.containers.items()}
    assert modes == {"vlm": "", "vlm-next": "full_decode_only"}
    upgrade.back(5, pause=False)
    assert node.containers["vlm"]["env"]["VLM_GRAPH_MODE"] == ""


def test_where_dies_are_shared_no_container_is_made_anew(node: SimulatedDies, tmp_path: Path):
    node.change(shared=True)
    (tmp_path / "share").write_text((SAMPLES / "share-on.txt").read_text())
    upgrade.start(5, pause=False)
    assert node.containers["vlm"]["half"] == "first" and node.containers["vlm-next"]["half"] == "second"
    assert set(map(len, node.dies.values())) == {16}
    upgrade.promote(5)
    assert list(node.containers) == ["vlm"] and node.containers["vlm"]["half"] == "all"


def test_back_on_a_cpu_keeps_the_version_of_a_vlm_that_loads(node: SimulatedDies, monkeypatch: pytest.MonkeyPatch):
    """Without a healthy vlm it is made anew, by the compose file of the hardware."""
    settings(node, monkeypatch, HARDWARE="cpu")
    node.change(shared=True, containers={"vlm": {**node.containers["vlm"], "dies": []}})
    upgrade.start(5, pause=False)
    node.change(containers={name: {**one, "loading": True} for name, one in node.containers.items()})
    upgrade.back(5, pause=False)
    assert list(node.containers) == ["vlm"]
    assert (node.containers["vlm"]["image"], node.containers["vlm"]["half"]) == ("sha256:old", "all")


def test_a_unit_that_starts_another_folder_at_boot(node: SimulatedDies, monkeypatch: pytest.MonkeyPatch):
    """It would give vlm all dies, by that folder's .env, while vlm-next holds half of them."""
    monkeypatch.setattr(upgrade.project, "boot_folder", lambda _: Path("/opt/before"))
    before = node.containers
    with pytest.raises(UsageError, match=rf"starts the bundle in /opt/before at boot.*WorkingDirectory={ROOT} in it"):
        upgrade.start(5, pause=True)
    assert node.containers == before
    monkeypatch.setattr(upgrade.project, "boot_folder", lambda _: ROOT)
    upgrade.start(5, pause=True)


def test_a_half_is_given_up_when_its_requests_have_ended(monkeypatch: pytest.MonkeyPatch):
    """Longer than the script in the container lets them take."""
    asked: list[float] = []
    monkeypatch.setattr(upgrade, "must", lambda *words, timeout: asked.append(timeout))
    upgrade.take("second")
    assert asked[0] > take_half.DRAIN_SECONDS
