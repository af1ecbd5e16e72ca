# SPDX-License-Identifier: Apache-2.0
"""Dies and replicas: what npu-smi says, and what of it preflight says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import atlas
import npu_smi
from bundle.compose import dies
from bundle.preflight import npu
from bundle.preflight.__main__ import findings, show
from bundle.preflight.machine import Finding
from container import replicas
from npu_smi import Answer
from tests.bundle.preflight.node import Node, by_check, on_cards
from tests.support.recorded_npu_smi import FAILURES, SAMPLES
from tool_errors import UsageError


def test_dies_without_kernels_have_no_remedy(tmp_path: Path):
    node = Node(tmp_path, "a2")
    node.npu["info",] = Answer(0, node.npu["info",].text.replace("910B4", "910A "))
    found = by_check(node)["dies"]
    assert found.level == "FAIL" and found.found == "910A (910A)" and found.remedy.startswith("another node")


@pytest.mark.parametrize(("sample", "words"), FAILURES.items())
def test_each_failure_of_npu_smi_has_its_cause(tmp_path: Path, sample: str, words: str):
    node = Node(tmp_path, "a3")
    node.npu["info",] = Answer(1, (SAMPLES / f"{sample}.txt").read_text())
    found = by_check(node)["npu-smi"]
    assert found.level == "FAIL" and words in found.found and found.remedy and "\n" not in show(found).split("do:")[1]


def test_a_die_that_fell_off_the_bus(tmp_path: Path):
    """Its device file is there, and npu-smi has no line for it."""
    node = Node(tmp_path, "a3")
    node.put("/dev/davinci2", "")
    lines = node.npu["info",].text.splitlines(keepends=True)
    node.npu["info",] = Answer(0, "".join(lines[:6] + lines[9:]))
    found = [finding for finding in findings(node) if finding.check == "dies"]
    assert found[0].level == "FAIL" and found[0].found == "npu-smi info does not list die 0, whose device file is there"


def test_a_sick_card_in_a_slot_is_named_by_its_device_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    found = by_check(on_cards(tmp_path / "all"))["dies"]
    assert (found.level, found.found) == ("FAIL", "die 1 has the Health Critical")
    assert found.remedy.startswith("npu-smi info -t health -i 2; ")
    asked: list[tuple[str, ...]] = []

    def spy(*words: str) -> Answer:
        asked.append(words[3:])
        return Node.npu_smi(node, *words)

    node = on_cards(tmp_path / "half", NPU_IDS="2-3")
    monkeypatch.setattr(node, "npu_smi", spy)
    assert by_check(node)["dies"].found.startswith("2 of 4 A2 dies chosen")
    assert [words for words in asked if words] == [("-i", "4"), ("-i", "5")], "device-share of the NPUs of these dies"


def test_nobody_is_judged_where_it_is_not_known_which_card_is_which(tmp_path: Path):
    node = on_cards(tmp_path)
    del node.npu["info", "-m"]
    (found,) = (finding for finding in findings(node) if finding.check == "dies")
    assert found.level == "WARN" and found.found.startswith("which /dev/davinciN is which NPU of 1, 2, 4, 5 is not")
    assert found.found.endswith("NPU 2 has the Health Critical") and "npu-smi info -m" in found.remedy


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("/stranger||/dev/davinci1|/dev/davinci_manager", "the container stranger was given die 1"),
        ("/stranger|other|/dev/davinci0|/dev/davinci1", "the container stranger was given die 0-1"),
        ("/stranger||/dev/davinci9", None),
        ("/web||", None),
        ("/paddleocr-vl-vlm-1|paddleocr-vl|/dev/davinci0", None),
        # By Ascend Docker Runtime, as an operator or the device plugin writes it; the engine knows no device files.
        ('/stranger|\t["A=1","ASCEND_VISIBLE_DEVICES=1-3,5"]', "the container stranger was given die 1"),
        ('/stranger|\t["ASCEND_VISIBLE_DEVICES=Ascend910-0,Ascend910-9"]', "the container stranger was given die 0"),
        ('/stranger|\t["ASCEND_VISIBLE_DEVICES=void"]', None),
    ],
)
def test_other_containers_on_our_dies_are_named(tmp_path: Path, line: str, found: str | None):
    node = Node(tmp_path, "a3")
    node.answers |= {("docker", "ps"): "1234\n", ("docker", "inspect"): f"{line}\n"}
    finding = by_check(node).get("other containers")
    assert (finding and (finding.level, finding.found)) == (found and ("WARN", found))


@pytest.mark.parametrize(
    ("sample", "words"),
    [
        ("share-off", "device-share is off"),
        ("share-a3", "device-share is off"),
        ("share-on", "device-share is on"),
        (None, "does not say whether device-share is on"),
    ],
)
def test_whether_containers_may_share_the_dies(tmp_path: Path, sample: str | None, words: str):
    node = Node(tmp_path, "a3")
    if sample:
        node.npu["info", "-t", "device-share"] = Answer(0, (SAMPLES / f"{sample}.txt").read_text())
    found = by_check(node)["sharing"]
    assert found.level == "PASS" and words in found.found
    # What a second container costs is said before anybody starts one.
    told = ("start --pause", "npu-smi set -t device-share", "only if you own all containers")
    assert [word in found.found for word in told] == [sample != "share-on"] * 3


def test_cores_of_a_machine_with_fewer_dies_than_a_server(tmp_path: Path):
    """In a container nothing tells that this machine has four dies: a replica would get an eighth of the cores."""
    node = on_cards(tmp_path)
    assert "cores" not in by_check(node), "npu-smi names cores near each die"
    node.npu["info", "-t", "topo"] = Answer(0, (SAMPLES / "topo-a3.txt").read_text())
    found = by_check(node)["cores"]
    assert found.level == "WARN" and found.found.startswith("4 dies where a server has 8")
    assert found.found.endswith("a replica gets 12% of this machine's") and found.needed == "25% for each die"
    assert found.remedy.startswith("VLM_CORES=none in .env")
    node.values = {**node.values, "VLM_CORES": "none"}
    assert "cores" not in by_check(node)


def test_a_server_that_lacks_dies_keeps_its_parts(tmp_path: Path):
    report = npu_smi.parse((SAMPLES / "a2-pcie.txt").read_text())
    machine: Any = SimpleNamespace(setting=lambda name: "auto", npu_smi=lambda *words: Answer(1, ""))
    assert len([*npu.part_of_cores(machine, report, atlas.named("a2"))]) == 1
    assert not [*npu.part_of_cores(machine, replace(report, dies=report.dies + report.dies[:1]), atlas.named("a2"))]


def test_several_replicas_a_die_need_larger_limits(tmp_path: Path):
    """On all 16 dies of an A3: two a die take 192 GB and 7,680 threads, four 15,360 threads."""
    found = by_check(Node(tmp_path / "one", "a3", NPU_IDS=""))["replicas"]
    assert (found.level, found.found) == ("PASS", "16, within VLM_MEM_LIMIT and VLM_PIDS_LIMIT")
    found = by_check(Node(tmp_path / "two", "a3", NPU_IDS="", VLM_REPLICAS_PER_DIE="2"))["replicas"]
    assert found.level == "WARN" and "VLM_MEM_LIMIT=179g and VLM_PIDS_LIMIT=15360 in .env" in found.remedy
    values = {"VLM_MEM_LIMIT": "360g", "VLM_REPLICAS_PER_DIE": "4"}
    found = by_check(Node(tmp_path / "four", "a3", NPU_IDS="", **values))["replicas"]
    assert found.level == "WARN" and "15360 threads" in found.needed


@pytest.mark.parametrize(("each", "level"), [("4", "WARN"), ("5", "FAIL"), ("8", "FAIL")])
def test_more_replicas_than_a_container_has(tmp_path: Path, each: str, level: str):
    """What preflight passes the container starts, as far as their number goes."""
    values = {"VLM_REPLICAS_PER_DIE": each}
    found = by_check(Node(tmp_path, "a3", NPU_IDS="", **values))["replicas"]
    assert found.level == level
    for number in range(16):
        (tmp_path / f"dev/davinci{number}").touch()
    if level == "FAIL":
        with pytest.raises(UsageError) as caught:
            replicas.count({"HARDWARE": "ascend", **values}, tmp_path / "dev")
        assert str(caught.value) == f"{found.found}; expected {found.needed}"
    else:
        assert replicas.count({"HARDWARE": "ascend", **values}, tmp_path / "dev") == 64


def test_dies_that_are_present(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    node = Node(tmp_path, "a3", NPU_IDS="present")
    for module in (npu, dies):
        monkeypatch.setattr(module, "FOLDER", tmp_path)
    (tmp_path / "present.yaml").write_text(dies.fragment("0-1", "present", [0]))
    found = by_check(node)
    assert found["devices"] == Finding("PASS", "devices", "1 die, NPU_IDS=present")
    # More replicas than dies are forgiven where a die is left out, and nowhere else.
    node.values = {**node.values, "VLM_REPLICAS": "2"}
    assert by_check(node)["replicas"].level == "PASS"
    (tmp_path / "present.yaml").write_text(dies.fragment("1", "present"))
    assert by_check(node)["replicas"].found == "VLM_REPLICAS is 2, and NPU_IDS gives 1 die"
    # A container on the die that is there, and one on the die that is not ours.
    node.answers |= {("docker", "ps"): "1f\n", ("docker", "inspect"): "/a|x|/dev/davinci1\n/b|x|/dev/davinci0\n"}
    assert by_check(node)["other containers"].found == "the container a was given die 1"


def test_dies_that_an_upgrade_gave_to_the_other_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """`docker compose up` would give them to vlm too, and it would start again and again."""
    node = Node(tmp_path, "a3", NPU_IDS="0-1")
    for module in (npu, dies):
        monkeypatch.setattr(module, "FOLDER", tmp_path)
    (tmp_path / "0-1.yaml").write_text(dies.fragment("0-1"))
    assert "upgrade by halves" not in by_check(node)
    (tmp_path / "present.yaml").write_text(dies.fragment("0", "present"))
    (tmp_path / "present-next.yaml").write_text(dies.fragment("1", "present-next"))
    found = by_check(node)["upgrade by halves"]
    assert found.level == "WARN" and found.found.startswith("NPU_IDS=0-1 gives vlm die 1, which")
    node.values = {**node.values, "NPU_IDS": "present"}
    assert "upgrade by halves" not in by_check(node)
    assert by_check(node)["devices"].found.endswith("1 are those of vlm-next, until scripts/upgrade.sh back")
