# SPDX-License-Identifier: Apache-2.0
"""scripts/upgrade.sh on dies that belong to one container: nothing changes unasked, and the halves are disjoint.

The engine and the driver are simulated (tests/support/simulated_dies.py). tests/images/cpu/test_upgrade.py has the real
engine, where both containers see the same core sets.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml

from bundle.compose import dies, division, images, served_model, upgrade
from container import cores, take_half
from tests.support.paths import ROOT
from tests.support.simulated_dies import SimulatedDies
from tests.support.weights import make_weights
from tool_errors import DeviceError, ServiceError, UsageError

SAMPLES = ROOT / "tests/data/npu-smi"
IMAGE = images.vlm("a3", "0.11.1")
FIRST, SECOND = list(range(8)), list(range(8, 16))


def table(numbers: Iterable[int]) -> str:
    """What `npu-smi info` prints for these dies of an A3, in the form of tests/data/npu-smi/a3.txt."""
    lines = (SAMPLES / "a3.txt").read_text().splitlines(keepends=True)
    rows = (
        f"| {number // 2:<5} Ascend910           | OK            | 166.5       38                0    / 0       |\n"
        f"| {number % 2:<5} {number:<19} | 0000:9D:00.0  | 0           0    / 0          3131 / 65536         |\n"
        for number in numbers
    )
    return "".join((*lines[:6], *rows, lines[5]))


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimulatedDies:
    found = SimulatedDies(tmp_path, monkeypatch, IMAGE)
    (tmp_path / "share").write_text((SAMPLES / "share-off.txt").read_text())
    for name in ("NPU_IDS", "VLM_IMAGE", "ATLAS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(upgrade, "VALUES", {})
    monkeypatch.setattr(upgrade, "PAUSE_SECONDS", 0.01)
    # A node with all device files; npu-smi lists each of the 16 dies in lines like the recorded ones.
    (tmp_path / "dev").mkdir()
    for number in range(16):
        (tmp_path / f"dev/davinci{number}").touch()
    unusable = dies.unusable
    monkeypatch.setattr(dies, "unusable", lambda wanted, _=None: unusable(wanted, tmp_path))
    monkeypatch.setattr(upgrade.project, "boot_folder", lambda: None)
    (tmp_path / "info").write_text(table(range(16)))
    found.build("sha256:new")
    return found


def without(tmp_path: Path, gone: int) -> None:
    """Let a die be gone: its device file, and its line in npu-smi."""
    (tmp_path / f"dev/davinci{gone}").unlink()
    (tmp_path / "info").write_text(table(number for number in range(16) if number != gone))


def settings(node: SimulatedDies, monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    """What .env says from now on."""
    node.change(env=values)
    monkeypatch.setattr(upgrade, "VALUES", values)


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


def test_the_dies_of_fewer_replicas_are_halved(node: SimulatedDies, monkeypatch: pytest.MonkeyPatch, capsys):
    """VLM_REPLICAS leaves dies out. As many as before do not fit into a half, and vlm would be gone."""
    settings(node, monkeypatch, VLM_REPLICAS="12")
    upgrade.start(5, pause=True)
    assert node.dies == {"vlm": list(range(6)), "vlm-next": list(range(6, 12))}
    assert "set NPU_IDS=present and VLM_REPLICAS= in .env now" in capsys.readouterr().err
    settings(node, monkeypatch, NPU_IDS="present")
    upgrade.back(5)
    assert node.dies == {"vlm": list(range(12))}
    assert "in .env" not in capsys.readouterr().err
    upgrade.must("up", "--detach", "vlm")
    assert node.dies == {"vlm": list(range(12))}, ".env is what the container was made by"


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


def test_it_says_whether_anything_serves(node: SimulatedDies, monkeypatch: pytest.MonkeyPatch, capsys):
    node.build("sha256:broken")
    with pytest.raises(ServiceError):
        upgrade.main(["start", "--pause", "--timeout", "1"])
    assert "the other half keeps serving" in capsys.readouterr().err
    upgrade.back(5)
    monkeypatch.setattr(upgrade, "as_it_is", lambda _: {"VLM_IMAGE": images.vlm("a3", "0.11.1")})
    with pytest.raises(ServiceError):
        upgrade.main(["start", "--pause", "--timeout", "1"])
    assert "nothing serves; scripts/upgrade.sh back" in capsys.readouterr().err


def test_while_two_versions_run_there_is_no_third(node: SimulatedDies):
    upgrade.start(5, pause=True)
    node.build("sha256:newer")
    with pytest.raises(UsageError, match="vlm-next is there already"):
        upgrade.start(5, pause=True)


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


@pytest.mark.parametrize("tagged_back", [False, True])
def test_back_makes_one_container_of_the_version_before(node: SimulatedDies, tagged_back: bool, capsys):
    upgrade.start(5, pause=True)
    capsys.readouterr()
    if tagged_back:
        node.build("sha256:old")
    upgrade.back(5)
    assert node.dies == {"vlm": list(range(16))} and node.containers["vlm"]["image"] == "sha256:old"
    said = capsys.readouterr().err
    assert (
        "vlm keeps the previous version; tag its image back" in said
    ) != tagged_back and "because promote" not in said


def test_back_after_compose_made_vlm_of_the_new_version(node: SimulatedDies, capsys):
    """By a boot or by hand, in the midst of a trial. The version before keeps its only name, and `back` says what it
    leaves."""
    upgrade.start(5, pause=True)
    node.change(env={"NPU_IDS": "present"})
    upgrade.must("up", "--detach", "vlm")
    assert node.dies == {"vlm": FIRST, "vlm-next": SECOND} and node.containers["vlm"]["image"] == "sha256:new"
    capsys.readouterr()
    upgrade.back(5)
    assert node.dies == {"vlm": list(range(16))} and node.containers["vlm"]["image"] == "sha256:new"
    assert node.state["tags"] == {IMAGE: "sha256:new", upgrade.OWN_IMAGE: "sha256:old"}
    said = capsys.readouterr().err
    assert f"To get the previous version, run this when back has ended: docker tag {upgrade.OWN_IMAGE}" in said
    # What it says is the way.
    upgrade.project.docker("tag", upgrade.OWN_IMAGE, IMAGE)
    upgrade.must("up", "--detach", "vlm")
    assert node.containers["vlm"]["image"] == "sha256:old"


def test_back_leaves_out_a_die_that_is_gone(node: SimulatedDies, tmp_path: Path, capsys):
    """The engine makes no container with its device file, and vlm-next is removed by then: nothing would serve."""
    upgrade.start(5, pause=True)
    without(tmp_path, 12)
    upgrade.back(5)
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
    upgrade.back(5)
    assert node.dies == {"vlm": list(range(16))}, "dies that came back belong to it again"


def test_the_version_before_keeps_its_settings(node: SimulatedDies):
    """.env is of the new version by then, and the one before may refuse it: nothing would serve."""
    # The second one is a setting that the version before has never heard of.
    node.change(env={"STACK": "0.23.0", "VLM_GRAPH_MODE": "full_decode_only", "VLM_NEWER": "1"})
    upgrade.start(5, pause=True)
    modes = {name: one["env"].get("VLM_GRAPH_MODE") for name, one in node.containers.items()}
    assert modes == {"vlm": "", "vlm-next": "full_decode_only"}
    upgrade.back(5)
    assert node.containers["vlm"]["env"]["VLM_GRAPH_MODE"] == ""


def test_a_version_that_did_not_pass_is_not_promoted(node: SimulatedDies, monkeypatch: pytest.MonkeyPatch):
    """It would take the place of the one that serves, while it serves nobody itself."""

    def differs(_: str) -> None:
        raise ServiceError("vlm-next does not compute what was recorded for its weights")

    monkeypatch.setattr(upgrade, "judge", differs)
    with pytest.raises(ServiceError):
        upgrade.start(5, pause=True)
    with pytest.raises(UsageError, match=r"did not pass scripts/upgrade.sh start, .*upgrade.sh back"):
        upgrade.promote(5)
    assert node.containers["vlm"]["image"] == "sha256:old"


@pytest.mark.parametrize(
    ("status", "said", "words"),
    [(0, "PASS 8100\n", None), (1, "PASS 8100\nFAIL 8101: text differs\n", "FAIL 8101: text differs"), (2, "", None)],
)
def test_a_version_is_judged_by_each_of_its_replicas(
    monkeypatch: pytest.MonkeyPatch, capsys, status: int, said: str, words: str | None
):
    """Without recorded values one block is read, as vlm reads it, with a warning."""
    answer = subprocess.CompletedProcess([], status, said, "first\nnothing is recorded\n")
    monkeypatch.setattr(upgrade.project, "compose", lambda *_, **__: answer)
    monkeypatch.setattr(upgrade, "one_block", lambda service: "A sentence.")
    monkeypatch.setattr(upgrade.project, "containers", lambda: {"vlm": {"Health": "healthy"}})
    if words:
        with pytest.raises(ServiceError, match=f"vlm-next does not compute what was recorded for its weights: {words}"):
            upgrade.judge("vlm-next")
    else:
        upgrade.judge("vlm-next")
        warned = "WARNING: vlm-next was judged by one block alone: nothing is recorded" in capsys.readouterr().err
        assert warned == bool(status)


def read(text: str, error: str = "") -> str:
    return json.dumps([{"replica": 0, "text": text, "seconds": 1.0, "error": error}])


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"vlm": read("A sentence."), "vlm-next": read("A sentence.")}, None),
        ({"vlm": read("A sentence."), "vlm-next": read("the the the")}, "reads 'the the the' where vlm reads 'A sent"),
        ({"vlm": read("A sentence."), "vlm-next": read("", "read nothing")}, "vlm-next, replica 0: read nothing"),
        ({"vlm": read("A sentence."), "vlm-next": "Traceback"}, "vlm-next could not be asked to read: Traceback"),
        ({"vlm": "", "vlm-next": read("A sentence.")}, None),
    ],
)
def test_without_recorded_values_both_versions_read_one_block_alike(
    monkeypatch: pytest.MonkeyPatch, said: dict[str, str], words: str | None
):
    """A version that answers its health check and reads nonsense would get half of the calls, and be promoted."""

    def compose(*called: str, **_: object) -> subprocess.CompletedProcess[str]:
        module = called[called.index("-m") + 1]
        return subprocess.CompletedProcess([], 2, "" if module == "selftest" else said[called[2]], "")

    monkeypatch.setattr(upgrade.project, "compose", compose)
    monkeypatch.setattr(upgrade.project, "containers", lambda: {"vlm": {"Health": "healthy"}})
    if words:
        with pytest.raises(ServiceError, match=words):
            upgrade.judge("vlm-next")
    else:
        upgrade.judge("vlm-next")


@pytest.mark.parametrize(
    ("told", "model"),
    [
        ('{"data": [{"root": "/models/a/b"}]}', "a/b"),
        ('{"data": [{"root": "/elsewhere/a"}]}', ""),
        ('{"data": [{"root": null}]}', ""),
        ('{"data": []}', ""),
        ("Connection refused", ""),
    ],
)
def test_the_model_that_a_container_serves(monkeypatch: pytest.MonkeyPatch, told: str, model: str):
    monkeypatch.setattr(upgrade.project, "compose", lambda *_, **__: subprocess.CompletedProcess([], 0, told, ""))
    assert served_model.served("vlm", "python") == model


def test_both_containers_must_serve_one_model(node: SimulatedDies, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The parser asks for one by name, and half of its calls would get 404. Where VLM_MODEL is unset, weights that were
    fetched since vlm started are what a new container takes."""
    make_weights(tmp_path / "models/PaddleOCR-VL")
    values = {"MODELS_DIR": str(tmp_path / "models"), "VLM_MODEL": ""}
    monkeypatch.setattr(upgrade, "VALUES", values)
    running = node.containers
    running["vlm"]["root"] = "/models/PaddleOCR-VL"
    node.change(containers=running)
    make_weights(tmp_path / "models/PaddleOCR-VL-1.5", "PaddleOCR-VL-1.5-0.9B")
    with pytest.raises(
        UsageError,
        match=r"vlm serves PaddleOCR-VL, .* would serve PaddleOCR-VL-1.5.*Set VLM_MODEL=PaddleOCR-VL ",
    ):
        upgrade.start(5, pause=True)
    assert node.containers == running
    settings(node, monkeypatch, **{**values, "VLM_MODEL": "PaddleOCR-VL"})
    upgrade.start(5, pause=True)
    # Neither container finds its model anew: the version before had none named, and newer weights are there.
    assert {name: one["env"]["VLM_MODEL"] for name, one in node.containers.items()} == dict.fromkeys(
        ("vlm", "vlm-next"), "PaddleOCR-VL"
    )
    made = node.containers
    made["vlm"] |= {"root": "/models/PaddleOCR-VL", "env": {**made["vlm"]["env"], "VLM_MODEL": ""}}
    node.change(containers=made)
    monkeypatch.setattr(upgrade, "VALUES", values)
    with pytest.raises(UsageError, match=r"Set VLM_MODEL=PaddleOCR-VL "):
        upgrade.promote(5)
    upgrade.back(5)
    assert node.containers["vlm"]["env"]["VLM_MODEL"] == "PaddleOCR-VL"


def test_a_broken_version_leaves_the_first_half_serving(node: SimulatedDies):
    node.build("sha256:broken")
    with pytest.raises(ServiceError, match="vlm-next ended: error: this version is broken"):
        upgrade.start(5, pause=True)
    assert node.dies["vlm"] == FIRST and node.containers["vlm"]["image"] == "sha256:old"
    upgrade.back(5)
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
    upgrade.back(5)
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
    upgrade.back(5)
    assert unserved() == ""
    upgrade.start(5, pause=True)
    assert unserved() == "", "each half has its container"


def test_where_dies_are_shared_no_container_is_made_anew(node: SimulatedDies, tmp_path: Path):
    node.change(shared=True)
    (tmp_path / "share").write_text((SAMPLES / "share-on.txt").read_text())
    upgrade.start(5, pause=False)
    assert node.containers["vlm"]["half"] == "first" and node.containers["vlm-next"]["half"] == "second"
    assert set(map(len, node.dies.values())) == {16}
    upgrade.promote(5)
    assert list(node.containers) == ["vlm"] and node.containers["vlm"]["half"] == "all"


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


def test_back_on_a_cpu_keeps_the_version_of_a_vlm_that_loads(node: SimulatedDies, monkeypatch: pytest.MonkeyPatch):
    """Without a healthy vlm it is made anew, by the compose file of the hardware."""
    settings(node, monkeypatch, HARDWARE="cpu")
    node.change(shared=True, containers={"vlm": {**node.containers["vlm"], "dies": []}})
    upgrade.start(5, pause=False)
    node.change(containers={name: {**one, "loading": True} for name, one in node.containers.items()})
    upgrade.back(5)
    assert list(node.containers) == ["vlm"]
    assert (node.containers["vlm"]["image"], node.containers["vlm"]["half"]) == ("sha256:old", "all")


def test_while_vlm_next_alone_serves_back_keeps_it(node: SimulatedDies):
    upgrade.start(5, pause=True)
    node.change(containers={**node.containers, "vlm": {**node.containers["vlm"], "image": "sha256:broken"}})
    before = node.containers
    with pytest.raises(UsageError, match="vlm does not serve, vlm-next does"):
        upgrade.back(5)
    assert node.containers == before


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
    upgrade.back(5)
    assert node.dies == {"vlm": list(range(16))}
    assert dies.looked_at(upgrade.VALUES) == "0-15" and dies.main(["present"]) == 0
    assert dies.given(upgrade.VALUES) == list(range(16))


def test_back_looks_at_the_dies_before_it_removes_anything(node: SimulatedDies, tmp_path: Path):
    upgrade.start(5, pause=True)
    before = node.containers
    for number in range(16):
        (tmp_path / f"dev/davinci{number}").rename(tmp_path / f"dev/gone{number}")
    with pytest.raises(DeviceError, match="none of the dies 0-15 can be used: die 0: no device file"):
        upgrade.back(5)
    assert node.containers == before
    for number in range(16):
        (tmp_path / f"dev/gone{number}").rename(tmp_path / f"dev/davinci{number}")
    # A user whom the driver does not let in learns nothing of the dies, which is no reason to have none.
    (tmp_path / "info").write_text((SAMPLES / "fails-8005-user.txt").read_text())
    upgrade.back(5)
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


def test_a_unit_that_starts_another_folder_at_boot(node: SimulatedDies, monkeypatch: pytest.MonkeyPatch):
    """It would give vlm all dies, by that folder's .env, while vlm-next holds half of them."""
    monkeypatch.setattr(upgrade.project, "boot_folder", lambda: Path("/opt/before"))
    before = node.containers
    with pytest.raises(UsageError, match=rf"starts the bundle in /opt/before at boot.*WorkingDirectory={ROOT} in it"):
        upgrade.start(5, pause=True)
    assert node.containers == before
    monkeypatch.setattr(upgrade.project, "boot_folder", lambda: ROOT)
    upgrade.start(5, pause=True)


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


def test_a_half_is_given_up_when_its_requests_have_ended(monkeypatch: pytest.MonkeyPatch):
    """Longer than the script in the container lets them take."""
    asked: list[float] = []
    monkeypatch.setattr(upgrade, "must", lambda *words, timeout: asked.append(timeout))
    upgrade.take("second")
    assert asked[0] > take_half.DRAIN_SECONDS
