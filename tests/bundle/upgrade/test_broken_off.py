# SPDX-License-Identifier: Apache-2.0
"""scripts/upgrade.sh when an upgrade broke off: by a version that is broken, by Ctrl-C, by a boot, or by hand.

The engine and the driver are simulated (tests/support/simulated_dies.py).
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bundle.compose import division, images, upgrade
from tests.support.paths import ROOT
from tests.support.recorded_npu_smi import SAMPLES
from tests.support.simulated_dies import FIRST, IMAGE, SECOND, SimulatedDies
from tool_errors import ServiceError, UsageError


def test_it_says_whether_anything_serves(node: SimulatedDies, monkeypatch: pytest.MonkeyPatch, capsys):
    node.build("sha256:broken")
    with pytest.raises(ServiceError):
        upgrade.main(["start", "--pause", "--timeout", "1"])
    assert "the other half keeps serving" in capsys.readouterr().err
    upgrade.back(5, pause=False)
    monkeypatch.setattr(upgrade, "as_it_is", lambda _: {"VLM_IMAGE": images.vlm("a3", "0.11.1")})
    with pytest.raises(ServiceError):
        upgrade.main(["start", "--pause", "--timeout", "1"])
    assert "nothing serves; scripts/upgrade.sh back" in capsys.readouterr().err


@pytest.mark.parametrize("promoted", [False, True])
def test_a_second_container_that_did_not_come_back_after_a_boot(node: SimulatedDies, promoted: bool, capsys):
    """An engine that starts before the driver has made a die's file gives its container up."""
    upgrade.start(5, pause=True)
    if promoted:
        upgrade.promote(5)
    both = node.containers
    node.change(containers={**both, "vlm-next": {**both["vlm-next"], "ended": True, "aliases": ["vlm-next"]}})
    before = node.containers["vlm"]
    with pytest.raises(UsageError, match=r"vlm-next has ended.*scripts/upgrade.sh start starts it again"):
        upgrade.promote(5)
    upgrade.start(5, pause=False)
    assert node.containers["vlm-next"] == both["vlm-next"] and node.containers["vlm"] == before
    assert "serves again" in capsys.readouterr().err


def test_back_after_compose_made_vlm_of_the_new_version(node: SimulatedDies, capsys):
    """By a boot or by hand, in the midst of a trial. The version before keeps its only name, and `back` says what it
    leaves."""
    upgrade.start(5, pause=True)
    node.change(env={"NPU_IDS": "present"})
    upgrade.must("up", "--detach", "vlm")
    assert node.dies == {"vlm": FIRST, "vlm-next": SECOND} and node.containers["vlm"]["image"] == "sha256:new"
    capsys.readouterr()
    upgrade.back(5, pause=False)
    assert node.dies == {"vlm": list(range(16))} and node.containers["vlm"]["image"] == "sha256:new"
    assert node.state["tags"] == {IMAGE: "sha256:new", upgrade.OWN_IMAGE: "sha256:old"}
    said = capsys.readouterr().err
    assert f"To get the previous version, run this when back has ended: docker tag {upgrade.OWN_IMAGE}" in said
    # What it says is the way.
    upgrade.project.docker("tag", upgrade.OWN_IMAGE, IMAGE)
    upgrade.must("up", "--detach", "vlm")
    assert node.containers["vlm"]["image"] == "sha256:old"


def test_two_projects_of_a_node_keep_two_images():
    """The version before, of each."""
    code = "from bundle.compose.upgrade import OWN_IMAGE; print(OWN_IMAGE)"
    found = {
        subprocess.check_output(
            [sys.executable, "-c", code],
            env={"PYTHONPATH": f"{ROOT}/operations:{ROOT}/common", "COMPOSE_PROJECT_NAME": name},
        )
        for name in ("", "second")
    }
    assert len(found) == 2


def test_a_broken_version_leaves_the_first_half_serving(node: SimulatedDies):
    node.build("sha256:broken")
    with pytest.raises(ServiceError, match="vlm-next ended: error: this version is broken"):
        upgrade.start(5, pause=True)
    assert node.dies["vlm"] == FIRST and node.containers["vlm"]["image"] == "sha256:old"
    upgrade.back(5, pause=False)
    assert node.dies == {"vlm": list(range(16))}


def test_back_after_a_start_that_broke_off_early(node: SimulatedDies, monkeypatch: pytest.MonkeyPatch):
    def fails(*_: object) -> None:
        raise ServiceError("stopped here")

    real = upgrade.start_container
    monkeypatch.setattr(upgrade, "start_container", lambda *words: fails() if words[0] == "vlm-next" else real(*words))
    with pytest.raises(ServiceError):
        upgrade.start(5, pause=True)
    monkeypatch.setattr(upgrade, "start_container", real)
    assert node.dies == {"vlm": FIRST}
    upgrade.back(5, pause=False)
    assert node.dies == {"vlm": list(range(16))}
    monkeypatch.setattr(upgrade, "start_container", lambda *words: fails() if words[0] == "vlm-next" else real(*words))
    with pytest.raises(ServiceError):
        upgrade.start(5, pause=True)
    monkeypatch.setattr(upgrade, "start_container", real)
    upgrade.start(5, pause=True)
    assert node.dies == {"vlm": FIRST, "vlm-next": SECOND}, "halves of all, not of what vlm has since"


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(("stage", "why"), [("start_container", "there is no vlm-next"), ("judge", "did not pass")])
def test_a_start_that_was_interrupted_leaves_dies_that_serve_nobody(
    node: SimulatedDies, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys, shared: bool, stage: str, why: str
):
    """Every check of what serves passes by then. Ctrl-C says the way out, and status.sh that it is still open."""
    node.change(shared=shared)
    (tmp_path / "share").write_text((SAMPLES / f"share-{'on' if shared else 'off'}.txt").read_text())

    def unserved() -> str:
        half = node.containers["vlm"]["half"]
        return division.unserved(upgrade.project.containers(), upgrade.VALUES, "" if half == "all" else half)

    def interrupted(service: str, *words: object) -> None:
        if service == "vlm-next":
            raise KeyboardInterrupt
        real(service, *words)

    assert unserved() == ""
    real = getattr(upgrade, stage)
    monkeypatch.setattr(upgrade, stage, interrupted)
    with pytest.raises(KeyboardInterrupt):
        upgrade.main(["start", "--pause", "--timeout", "5"])
    assert "the other half keeps serving; scripts/upgrade.sh back ends the attempt" in capsys.readouterr().err
    assert why in unserved()
    monkeypatch.setattr(upgrade, stage, real)
    upgrade.back(5, pause=False)
    assert unserved() == ""
    upgrade.start(5, pause=True)
    assert unserved() == "", "each half has its container"


@pytest.mark.parametrize(
    ("after", "serve"),
    [
        ({"order": ["vlm", "vlm-next"]}, ["vlm"]),
        ({"order": ["vlm-next", "vlm"]}, ["vlm-next"]),
        ({"mixed": True}, []),
    ],
)
def test_back_makes_one_container_whichever_opened_the_dies_first(
    node: SimulatedDies, tmp_path: Path, after: dict[str, object], serve: list[str]
):
    """device-share is off again after a boot: both containers have all device files, and at most one has the dies."""
    node.change(shared=True)
    (tmp_path / "share").write_text((SAMPLES / "share-on.txt").read_text())
    upgrade.start(5, pause=False)
    node.change(shared=False, **after)
    assert [name for name, row in upgrade.project.containers().items() if row["Health"] == "healthy"] == serve
    if serve == ["vlm-next"]:
        before = node.containers
        with pytest.raises(
            UsageError, match=r"Nothing was changed.*`scripts/upgrade.sh back --pause`: it ends vlm-next"
        ):
            upgrade.main(["back", "--timeout", "5"])
        assert node.containers == before
    node.change(calls=[])
    upgrade.main(["back", "--pause", "--timeout", "5"])
    # One that restarts again and again lets nobody in who would give it its dies: it is made anew.
    assert any(call.endswith(" --no-deps vlm") for call in node.state["calls"]) == (serve != ["vlm"])
    assert node.dies == {"vlm": list(range(16))} and node.containers["vlm"]["half"] == "all"
    assert node.containers["vlm"]["image"] == "sha256:old"
    assert upgrade.project.containers()["vlm"]["Health"] == "healthy"


def test_while_vlm_next_alone_serves_back_keeps_it(node: SimulatedDies):
    upgrade.start(5, pause=True)
    node.change(containers={**node.containers, "vlm": {**node.containers["vlm"], "image": "sha256:broken"}})
    before = node.containers
    with pytest.raises(UsageError, match="vlm does not serve, vlm-next does"):
        upgrade.back(5, pause=False)
    assert node.containers == before
