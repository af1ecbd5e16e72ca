# SPDX-License-Identifier: Apache-2.0
"""preflight.sh against machines made of recorded outputs: A3, A2, 310P, none; and what changes when something is
wrong."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import atlas
import npu_smi
from bundle.compose import dies, images, project
from bundle.preflight import driver, engine, host, npu, reach, weights
from bundle.preflight import machine as machine_module
from bundle.preflight.__main__ import findings, show
from bundle.preflight.machine import Finding, Machine
from container import replicas
from npu_smi import DRIVER_DEVICES, Answer
from served_weights import layout, manifest
from tests.bundle.test_device_check import FAILURES
from tests.support.paths import ROOT
from tool_errors import UsageError

SAMPLES = ROOT / "tests/data/npu-smi"
FILES = {
    "/etc/os-release": 'PRETTY_NAME="openEuler 22.03 (LTS-SP4)"\n',
    "/proc/meminfo": "MemTotal:       2113929216 kB\n",
    "/usr/local/Ascend/driver/version.info": "Version=25.2.3\nascendhal_version=7.35.23\n",
    "/usr/local/Ascend/firmware/version.info": "Version=7.7.0.6.236\n",
    "/etc/ascend_install.info": "",
    "/usr/local/bin/npu-smi": "",
    "/usr/local/dcmi/libdcmi.so": "",
    "/usr/local/Ascend/driver/lib64/libdrv.so": "",
}


def built_for(**labels: str) -> str:
    """What Docker says of the labels of an image, by default the one of an A3 and the first stack."""
    known = {"hardware": "ascend", "stack": "0.11.1", "soc": "ascend910_9391", **labels}
    return json.dumps({f"paddleocr-vl.{name}": value for name, value in known.items()})


class Node(Machine):
    """A node of recorded outputs below a scratch folder; `answers` maps the begin of a command to its output."""

    def __init__(self, folder: Path, sample: str | None, **values: str) -> None:
        self.free, self.lacks = True, list[str]()
        super().__init__({"NPU_IDS": "0-1", "MODELS_DIR": str(folder / "models"), **values}, folder)
        for name, text in FILES.items():
            self.put(name, text)
        for name in ("davinci0", "davinci1", *DRIVER_DEVICES):
            self.put(f"/dev/{name}", "")
            self.path(f"/dev/{name}").chmod(0o660)
        self.path(driver.NPU_SMI).chmod(0o755)
        self.group = self.path("/dev/davinci0").stat().st_gid
        self.values = {"ASCEND_GID": str(self.group), **self.values}
        self.answers: dict[tuple[str, ...], str] = {
            ("docker", "version"): "26.1.5\n",
            ("docker", "compose"): "2.26.1\n",
            ("docker", "info"): json.dumps({"DockerRootDir": str(folder)}),
            ("docker", "image"): built_for(
                hardware=values.get("HARDWARE", "ascend"), stack=values.get("STACK", "0.11.1")
            ),
        }
        self.npu: dict[tuple[str, ...], Answer]
        self.npu = {("info",): Answer(0, (SAMPLES / f"{sample}.txt").read_text())} if sample else {}
        if sample:  # cut to the first dies of a server, so that the number of dies says nothing of its cores
            self.npu["info", "-t", "topo"] = Answer(0, (SAMPLES / "topo-a2.txt").read_text())
        if sample and sample.startswith("a2"):
            self.npu["info", "-m"] = Answer(0, (SAMPLES / f"map-{sample}.txt").read_text())
        model = folder / "models/PaddleOCR-VL"
        (model / layout.DEFAULT).mkdir(parents=True)
        for file in layout.FILES:
            (model / layout.DEFAULT / file).write_text(file)
        manifest.write(model / layout.DEFAULT)
        (model / "config.json").write_text("{}")
        (model / "inference.yml").write_text("Global:\n  model_name: PaddleOCR-VL-0.9B\n")
        (model / "model.safetensors").write_bytes(bytes(8) + b"{}")
        manifest.write(model)

    def change(self, old: str, new: str) -> None:
        """Let npu-smi info say something else at one place."""
        self.npu["info",] = Answer(0, self.npu["info",].text.replace(old, new, 1))

    def occupy(self, npu: int, chip: int) -> None:
        """Let npu-smi info list a process of somebody else."""
        table = (
            "| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |\n"
            f"| {npu}       {chip}                 | 2161          | python3                  | 2900     |\n"
        )
        self.npu["info",] = Answer(0, self.npu["info",].text + table)

    def put(self, name: str, text: str) -> None:
        self.path(name).parent.mkdir(parents=True, exist_ok=True)
        self.path(name).write_text(text)

    def run(self, *command: str) -> str | None:
        return self.answers.get(command[:2]) or self.answers.get(command[:1])

    def npu_smi(self, *words: str) -> Answer:
        missing = Answer(None, "npu-smi cannot be run (No such file or directory)", missing=True)
        return self.npu.get(words) or self.npu.get(words[:3]) or (Answer(1, "") if self.npu else missing)

    def architecture(self) -> str:
        return "aarch64"

    def isolation_lacks(self) -> list[str]:
        return self.lacks

    def free_disk(self, path: Path) -> int:
        return 200 * 2**30

    def same_disk(self, one: Path, other: Path) -> bool:
        return one == other

    def port_is_free(self, host: str, port: int) -> bool:
        return self.free


def by_check(machine: Machine) -> dict[str, Finding]:
    return {finding.check: finding for finding in findings(machine)}


def test_an_a3_node_passes(tmp_path: Path):
    found = by_check(Node(tmp_path, "a3"))
    assert {finding.level for finding in found.values()} == {"PASS"}, [show(finding) for finding in found.values()]
    assert {"driver", "devices", "dies", "group", "engine", "compose", "image", "weights"} <= set(found)


def test_an_a2_node_passes_with_one_setting(tmp_path: Path):
    """Without it, what is printed is that very setting."""
    found = by_check(Node(tmp_path / "before", "a2"))["dies"]
    assert found.level == "FAIL" and "910B4 (A2)" in found.found and found.remedy.startswith("ATLAS=a2 in .env")
    node = Node(tmp_path / "after", "a2", ATLAS="a2", NPU_IDS="0")
    node.change(" 9030 /", " 2859 /")  # an idle die's
    node.answers["docker", "image"] = built_for(soc="ascend910b3")
    after = by_check(node)
    assert {finding.level for finding in after.values()} == {"PASS"}, [show(finding) for finding in after.values()]
    assert images.vlm("a2", "0.11.1") in after["image"].found


def test_a_310p_node_passes_with_two_settings(tmp_path: Path):
    """Without them, what is printed is these very settings."""
    found = by_check(Node(tmp_path / "before", "310p"))["dies"]
    assert found.level == "FAIL" and "310P3 (310P)" in found.found
    assert found.remedy.startswith("ATLAS=310p and STACK=0.23.0 in .env")
    found = by_check(Node(tmp_path / "stack", "310p", ATLAS="310p"))["ATLAS"]
    assert found.level == "FAIL" and found.found.endswith("a 310P (Atlas 300I Duo, 300I Pro); set STACK=0.23.0")
    node = Node(tmp_path / "after", "310p", ATLAS="310p", STACK="0.23.0", NPU_IDS="0-1")
    node.put("/usr/local/Ascend/driver/version.info", "Version=26.0.rc1\n")
    node.answers["docker", "image"] = built_for(soc="ascend310p1", stack="0.23.0")
    after = by_check(node)
    assert {finding.level for finding in after.values()} == {"PASS"}, [show(finding) for finding in after.values()]
    assert images.vlm("310p", "0.23.0") in after["image"].found
    node.values = {**node.values, "LAYOUT_SERVER": "1", "LAYOUT_DEVICE": "npu:1"}
    assert "float32, which a 310P does not multiply" in by_check(node)["layout device"].found


def test_a_stack_that_cannot_serve_the_model_is_told_before_it_is_built(tmp_path: Path):
    node = Node(tmp_path, "a3", VLM_MODEL="Qwen2-VL-2B-Instruct")
    found = by_check(node)["stack"]
    assert found.level == "FAIL" and "Qwen2-VL-2B-Instruct needs stack 0.23.0 on Ascend, but" in found.found
    node.values = {**node.values, "STACK": "0.23.0"}
    assert "stack" not in by_check(node)


def test_a_unit_that_starts_another_folder_at_boot(tmp_path: Path):
    """After an upgrade by an archive, or a rollback: at the next boot it would make the containers of that folder."""
    unit = (ROOT / "config/systemd/paddleocr-vl.service").read_text()
    node = Node(tmp_path, "a3")
    (tmp_path / "opt/paddleocr-vl").mkdir(parents=True)
    node.put(project.UNIT, unit)
    (found,) = engine.check_boot(node)
    assert (found.level, found.found) == ("WARN", f"{project.UNIT} starts the bundle in /opt/paddleocr-vl")
    assert found.remedy.startswith(f"WorkingDirectory={ROOT} in it, then systemctl daemon-reload")
    node.put(project.UNIT, unit.replace("/opt/paddleocr-vl", str(ROOT)))
    assert [one.level for one in engine.check_boot(node)] == ["PASS"]


def test_a_kernel_without_landlock_is_a_warning(tmp_path: Path):
    node = Node(tmp_path, "a3")
    assert [finding.level for finding in host.check_isolation(node)] == ["PASS"]
    node.lacks = ["landlock"]
    (found,) = host.check_isolation(node)
    assert (found.level, found.found) == ("WARN", "the kernel has no landlock") and "docs/secure.md" in found.remedy


def test_dies_without_kernels_have_no_remedy(tmp_path: Path):
    node = Node(tmp_path, "a2")
    node.npu["info",] = Answer(0, node.npu["info",].text.replace("910B4", "910A "))
    found = by_check(node)["dies"]
    assert found.level == "FAIL" and found.found == "910A (910A)" and found.remedy.startswith("another node")


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


def test_an_image_of_another_product_is_named(tmp_path: Path):
    found = by_check(Node(tmp_path, "a2", ATLAS="a2"))["image"]
    assert found.level == "FAIL" and found.found == f"{images.vlm('a2', '0.11.1')} was built for ascend910_9391"


@pytest.mark.parametrize(("sample", "words"), FAILURES.items())
def test_each_failure_of_npu_smi_has_its_cause(tmp_path: Path, sample: str, words: str):
    node = Node(tmp_path, "a3")
    node.npu["info",] = Answer(1, (SAMPLES / f"{sample}.txt").read_text())
    found = by_check(node)["npu-smi"]
    assert found.level == "FAIL" and words in found.found and found.remedy and "\n" not in show(found).split("do:")[1]


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


def test_a_machine_without_npu(tmp_path: Path):
    node = Node(tmp_path, None)
    node.path("/dev/davinci0").unlink()
    node.path("/usr/local/Ascend/driver/version.info").unlink()
    found = by_check(node)
    assert found["driver"].level == found["devices"].level == found["npu-smi"].level == "FAIL"
    assert "25.2.3" in found["driver"].remedy and "/dev/davinci0" in found["devices"].found
    newer = Node(tmp_path / "newer", "a3", STACK="0.23.0")
    assert by_check(newer)["driver"].level == "FAIL" and "25.5.1 or newer" in by_check(newer)["driver"].needed
    newer.put("/usr/local/Ascend/driver/version.info", "Version=26.0.rc1\n")
    assert (by_check(newer)["driver"].level, by_check(newer)["driver"].found) == ("PASS", "26.0.rc1")
    newer.values = {**newer.values, "STACK": ""}
    assert by_check(newer)["driver"].found.startswith("26.0.rc1, new enough for STACK=0.23.0")
    on_cpu = Node(tmp_path / "cpu", None, HARDWARE="cpu")
    old = by_check(on_cpu)["processor"]
    assert old.level == "FAIL" and old.found.startswith("aarch64 with STACK=0.11.1") and old.needed == "STACK=0.23.0"
    on_cpu = Node(tmp_path / "cpu-0.23", None, HARDWARE="cpu", STACK="0.23.0")
    assert "driver" not in by_check(on_cpu) and all(finding.level != "FAIL" for finding in findings(on_cpu))


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


@pytest.mark.parametrize(
    ("change", "check", "level", "words"),
    [
        (lambda node: node.answers.pop(("docker", "version")), "engine", "FAIL", "docker does not answer"),
        (lambda node: node.answers.update({("docker", "version"): "18.09.0\n"}), "engine", "FAIL", "18.09.0"),
        (lambda node: node.answers.update({("docker", "version"): "20.10.24+dfsg1\n"}), "building", "WARN", "20.10.24"),
        (lambda node: node.answers.update({("docker", "version"): "20.10.17\n"}), "engine", "FAIL", "20.10.17"),
        (lambda node: node.answers.pop(("docker", "compose")), "compose", "FAIL", "missing"),
        (lambda node: node.answers.update({("docker", "compose"): "2.3.3\n"}), "compose", "FAIL", "2.3.3"),
        (lambda node: node.answers.update({("docker", "compose"): "v2.24.6+ds1\n"}), "compose", "FAIL", "v2.24.6"),
        (lambda node: node.answers.pop(("docker", "image")), "image", "WARN", "is not there"),
        (lambda node: node.answers.pop(("docker", "image")), "parser image", "WARN", f"{images.PARSER} is not there"),
        (
            lambda node: node.put("/usr/local/Ascend/driver/version.info", "Version=24.1.rc3\n"),
            "driver",
            "WARN",
            "24.1",
        ),
        (
            lambda node: node.values.update({"ASCEND_GID": "54321"}),
            "group",
            "FAIL",
            "and the mode 660, ASCEND_GID is 54321",
        ),
        (lambda node: node.path("/dev/devmm_svm").chmod(0o600), "group", "FAIL", "/dev/devmm_svm has the group"),
        (
            lambda node: node.path("/usr/local/dcmi").chmod(0o700),
            "driver files",
            "FAIL",
            "/usr/local/dcmi has the group",
        ),
        (lambda node: node.path(driver.NPU_SMI).chmod(0o700), "group", "FAIL", f"{driver.NPU_SMI} has the group"),
        (
            lambda node: node.path("/dev/davinci_manager").unlink(),
            "devices",
            "FAIL",
            "the driver is not loaded: /dev/davinci_manager is missing",
        ),
        (
            lambda node: [node.path(f"/dev/davinci{number}").unlink() for number in (0, 1)],
            "devices",
            "FAIL",
            "the driver has found no die: there is no /dev/davinciN",
        ),
        (lambda node: node.put("/etc/os-release", 'PRETTY_NAME="Plan 9"\n'), "system", "WARN", "Plan 9"),
        (lambda node: node.put("/proc/meminfo", "MemTotal: 8000000 kB\n"), "memory", "WARN", "8 GiB"),
        (lambda node: node.put("/models/PaddleOCR-VL/config.json", "{ }"), "weights", "FAIL", "damaged"),
        (
            lambda node: node.path("/models/PaddleOCR-VL/config.json").unlink(),
            "weights",
            "FAIL",
            "config.json is missing",
        ),
        (
            lambda node: shutil.rmtree(node.path("/models/PaddleOCR-VL/PP-DocLayoutV2")),
            "layout model",
            "FAIL",
            "PP-DocLayoutV2 was not found",
        ),
        (
            lambda node: node.put("/models/PaddleOCR-VL/PP-DocLayoutV2/inference.pdiparams", "inference.pdipArams"),
            "layout model",
            "FAIL",
            "inference.pdiparams is damaged",
        ),
        (
            lambda node: node.values.update({"MODELS_DIR": "/nonexistent"}),
            "weights",
            "FAIL",
            "MODELS_DIR: /nonexistent is no folder",
        ),
        (lambda node: node.values.update({"VLM_MODEL": "nothing"}), "weights", "FAIL", "VLM_MODEL is 'nothing'"),
        (
            lambda node: node.values.update({"LAYOUT_MODEL_DIR": "/models/elsewhere"}),
            "layout model",
            "FAIL",
            "models/elsewhere",
        ),
        (lambda node: node.values.update({"LAYOUT_MODEL_DIR": "/opt/inside"}), "layout model", "WARN", "/opt/inside"),
        (lambda node: node.path("/models/PaddleOCR-VL/config.json").chmod(0o600), "permissions", "FAIL", "config.json"),
        # As git makes it under a umask of 077.
        (lambda node: node.path("/models").chmod(0o700), "permissions", "FAIL", "/models cannot be read by others"),
        (lambda node: node.values.update({"ATLAS": "a5"}), "ATLAS", "FAIL", "ATLAS is 'a5'; expected one of a3"),
        (lambda node: node.values.update({"NPU_IDS": "0-1x"}), "NPU_IDS", "FAIL", "NPU_IDS is '0-1x'"),
        (lambda node: node.values.update({"NPU_IDS": "1,0"}), "NPU_IDS", "FAIL", "ascending"),
        (lambda node: node.values.update({"NPU_IDS": "0,1"}), "NPU_IDS", "FAIL", "no compose fragment for 0,1"),
        (lambda node: setattr(node, "free", False), "port", "FAIL", "8080 on 127.0.0.1 is taken"),
        (lambda node: node.values.update({"PARSER_BIND": "0.0.0.0"}), "keys", "FAIL", "there are no keys"),
        (lambda node: node.values.update({"PARSER_API_KEYS": "mysecret"}), "keys", "FAIL", "entry 1 is no hash"),
        (lambda node: node.values.update({"PARSER_MEM_LIMIT": "much"}), "memory", "FAIL", "PARSER_MEM_LIMIT is 'much'"),
        (lambda node: node.values.update({"HARDWARE": "gpu"}), "HARDWARE", "FAIL", "HARDWARE is 'gpu'"),
        (lambda node: node.values.update({"NPU_IDS": "present"}), "NPU_IDS", "FAIL", "no compose fragment for present"),
        (
            lambda node: node.change("| OK ", "| Critical "),
            "dies",
            "FAIL",
            "die 0 has the Health Critical",
        ),
        (lambda node: node.change("| OK ", "| Alarm "), "health of dies", "WARN", "die 0 Alarm"),
        (
            lambda node: node.change(" 3131 /", "23131 /"),
            "free dies",
            "WARN",
            "die 0 holds memory",
        ),
        (lambda node: node.values.update({"VLM_REPLICAS": "3"}), "replicas", "FAIL", "VLM_REPLICAS is 3, and NPU_IDS"),
        (
            lambda node: node.values.update({"VLM_MEM_LIMIT": "11g"}),
            "replicas",
            "WARN",
            "2 replicas, VLM_MEM_LIMIT 11g",
        ),
        (
            lambda node: node.values.update({"LAYOUT_SERVER": "1", "LAYOUT_DEVICE": "npu:2"}),
            "layout device",
            "FAIL",
            "LAYOUT_DEVICE is npu:2, and NPU_IDS gives 2 dies",
        ),
        (
            lambda node: node.values.update({"STACK": "0.23.0"}),
            "image",
            "FAIL",
            "vllm0.23.0 was built for STACK 0.11.1",
        ),
        (
            lambda node: node.answers.update({("docker", "image"): built_for(hardware="cpu")}),
            "image",
            "FAIL",
            "was built for HARDWARE cpu",
        ),
        (lambda node: node.values.update({"VLM_PIDS_LIMIT": "400"}), "replicas", "WARN", "VLM_PIDS_LIMIT 400"),
        (lambda node: node.occupy(0, 0), "free dies", "WARN", "a process runs on NPU 0 chip 0"),
        (lambda node: node.occupy(0, 1), "free dies", "WARN", "a process runs on NPU 0 chip 1"),
    ],
)
def test_each_trouble_is_named(tmp_path: Path, change, check: str, level: str, words: str):
    node = Node(tmp_path, "a3")
    change(node)
    finding = by_check(node)[check]
    assert finding.level == level and words in finding.found
    assert finding.needed and finding.remedy


def info(root: str, socket: str = "", *, containerd: bool = False) -> str:
    """What `docker info` says of where it keeps images."""
    kept = ["driver-type", "io.containerd.snapshotter.v1"] if containerd else ["Backing Filesystem", "extfs"]
    return json.dumps({"DockerRootDir": root, "DriverStatus": [kept], "Containerd": {"Address": socket}})


SYSTEMS, OWN = "/run/containerd/containerd.sock", "/var/run/docker/containerd/containerd.sock"
SETTINGS = """version = 3
#root = "/comment"
root = '/data/containerd'
[plugins."io.containerd.snapshotter.v1.overlayfs"]
root = "/elsewhere"
"""


@pytest.mark.parametrize(
    ("told", "settings", "root", "remedy"),
    [
        # Without an answer where Docker has it by default.
        (None, "", "/var/lib/docker", "move Docker's data-root"),
        (info("/data/docker", SYSTEMS), SETTINGS, "/data/docker", "move Docker's data-root"),
        # A new Docker 29; also where the system's containerd was moved, or Docker has started its own.
        (
            info("/data/docker", SYSTEMS, containerd=True),
            "",
            "/var/lib/containerd",
            "root in /etc/containerd/config.toml",
        ),
        (info("/data/docker", SYSTEMS, containerd=True), SETTINGS, "/data/containerd", "move containerd's root"),
        (info("/data/docker", OWN, containerd=True), SETTINGS, "/data/docker", "move Docker's data-root"),
    ],
)
@pytest.mark.parametrize("hardware", ["ascend", "cpu"])
def test_the_disk_of_the_engine_holds_the_images(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    hardware: str,
    told: str | None,
    settings: str,
    root: str,
    remedy: str,
):
    """It is the engine's, wherever that is."""
    node = Node(tmp_path, "a3")
    node.values = {**node.values, "HARDWARE": hardware}
    node.put("/etc/containerd/config.toml", settings)
    monkeypatch.setitem(node.answers, ("docker", "info"), told)
    for missing, level in ((0, "PASS"), (1, "WARN")):
        free = {root: (engine.DISK[hardware] << 30) - missing}
        monkeypatch.setattr(node, "free_disk", lambda path, free=free: free.get(str(path), 0))
        (found,) = (finding for finding in engine.check_engine(node) if finding.check == "disk")
        assert found.level == level and f"GiB free in {root}" in found.found
        assert level == "PASS" or remedy in found.remedy


def test_jobs_lie_on_dockers_own_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Where containerd has the images on another one."""
    schema = json.loads((ROOT / "common/declared_settings/settings.schema.json").read_text())
    node = Node(tmp_path, "a3")
    node.answers["docker", "info"] = info("/small", SYSTEMS, containerd=True)
    sizes = {"/small": 49 << 30, "/var/lib/containerd": 60 << 30}
    monkeypatch.setattr(node, "free_disk", lambda path: sizes.get(str(path), 200 << 30))
    found = by_check(node)
    assert found["disk"].level == "PASS" and found["disk of jobs"].level == "WARN"
    assert found["disk of jobs"].found == "49 GiB free in /small"
    assert float(engine.JOBS) == float(schema["properties"]["PARSER_JOB_KEEP_GIB"]["default"])
    node.values = {**node.values, "PARSER_JOB_KEEP_GIB": "49"}
    assert by_check(node)["disk of jobs"].level == "PASS"
    monkeypatch.setattr(node, "same_disk", lambda one, other: True)
    assert "disk of jobs" not in by_check(node)


BUILDX = "github.com/docker/buildx {} 24e4d6f"


@pytest.mark.parametrize(
    ("compose", "buildx", "values", "level", "words"),
    [
        # BuildKit of the engine is enough, also for the last Compose 2 where there is no buildx.
        ("2.39.4", None, {}, None, ""),
        ("2.40.3", None, {}, None, ""),
        ("2.40.3", "v0.16.2", {}, "FAIL", "buildx 0.16.2"),
        ("5.0.1", None, {}, "FAIL", "buildx is missing"),
        ("5.0.1", "0.13.1+ds1", {}, "FAIL", "buildx 0.13.1"),
        ("5.0.1", "v0.17.0", {}, "PASS", "buildx 0.17.0"),
        ("5.0.1", "v0.30.1", {"BUILD_NETWORK": "host"}, "PASS", "buildx 0.30.1"),
        # What these ask for, Compose does not pass on.
        ("5.0.1", "v0.20.1", {}, "WARN", "files outside this folder"),
        ("5.0.1", "v0.19.3", {"BUILD_NETWORK": "host"}, "WARN", "BUILD_NETWORK=host"),
    ],
)
def test_the_builder_of_newer_composes(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    compose: str,
    buildx: str | None,
    values: dict[str, str],
    level: str | None,
    words: str,
):
    """In a checkout, and in an archive that carries what a build needs. One that carries the images, and a machine that
    has them, build nothing."""
    monkeypatch.setattr(engine, "ROOT", tmp_path)
    node = Node(tmp_path, "a3", **values)
    node.answers["docker", "compose"] = f"{compose}\n"
    if buildx:
        node.answers["docker", "buildx"] = BUILDX.format(buildx)
    assert list(engine.check_buildx(node)) == []
    del node.answers["docker", "image"]
    for archive in (None, {"builds": True}, {"builds": False}):
        if archive:
            (tmp_path / "offline.json").write_text(json.dumps(archive))
        found = list(engine.check_buildx(node))
        assert [one.level for one in found] == ([level] if level and archive != {"builds": False} else [])
        assert all(words in one.found for one in found)
        assert all("docker-buildx-plugin" in one.remedy and one.needed for one in found if level != "PASS")


@pytest.mark.parametrize(
    ("text", "size"),
    [("12g", 12), ("512m", 0.5), ("1048576k", 1), ("1.5T", 1536), (" 2GB ", 2), ("1073741824b", 1), ("1073741824", 1)]
    + [("lots", None), ("", None), ("-1g", None)],
)
def test_a_size_is_read_as_compose_writes_it(text: str, size: float | None):
    assert machine_module.gibibytes(text) == size


def test_a_secret_is_never_shown(tmp_path: Path):
    node = Node(tmp_path, "a3", PARSER_API_KEYS="mysecret")
    assert not any("mysecret" in show(finding) for finding in findings(node))


def test_what_is_read_of_a_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    found = Machine({"HARDWARE": "", "NPU_IDS": "", "ATLAS": "a2"}, tmp_path)
    assert found.hardware == "ascend" and (found.setting("NPU_IDS", "0-1"), found.setting("ATLAS", "a3")) == (
        "0-1",
        "a2",
    )
    assert found.read("/proc/meminfo") == "" and found.memory() == 0
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemFree: 7 kB\nMemTotal:       2048 kB\n")
    assert found.memory() == 2 << 20
    assert found.run("sh", "-c", "echo out; echo err >&2") == "out\n"
    assert found.run("sh", "-c", "echo out; exit 1") is None and found.run(str(tmp_path / "none")) is None
    monkeypatch.setattr(machine_module.shutil, "disk_usage", lambda path: SimpleNamespace(free=len(str(path))))
    assert found.free_disk(tmp_path / "not/there/yet") == len(str(tmp_path))
    assert [project.version(text) for text in ("v2.20.3-desktop", "Docker 25.0", "none")] == [
        (2, 20, 3),
        (25, 0),
        (),
    ]


def test_a_port_that_our_own_parser_holds(tmp_path: Path):
    node = Node(tmp_path, "a3")
    node.free = False
    node.answers["docker", "compose"] = '{"State":"running"}\n'
    assert by_check(node)["port"] == Finding("PASS", "port", "8080 on 127.0.0.1 is our parser's")


@pytest.mark.parametrize(
    "values",
    [
        {"PARSER_API_KEYS": "sha256:" + "0" * 64},
        {"PARSER_API_KEYS": f"sha256:{'0' * 64} name=billing pages=1000/day,sha256:{'1' * 64}"},
        {"PARSER_AUTH": "off"},
        {"PARSER_API_KEYS_FILE": "/run/keys"},
        {"PARSER_BIND": "::1"},
    ],
)
def test_a_parser_that_is_open_to_none_without_a_key(tmp_path: Path, values: dict[str, str]):
    assert by_check(Node(tmp_path, "a3", **{"PARSER_BIND": "0.0.0.0", **values}))["keys"].level == "PASS"


def test_keys_in_the_parsers_volume(tmp_path: Path):
    node = Node(tmp_path, "a3", PARSER_BIND="0.0.0.0")
    node.answers["docker", "volume"] = "[{}]\n"
    assert by_check(node)["keys"].level == "FAIL"
    node.answers["docker", "run"] = "billing  0123456789abcdef  valid\nguest  123456789abcdef0  valid\n"
    assert by_check(node)["keys"] == Finding("PASS", "keys", "2 in the volume paddleocr-vl_parser-state")


def on_cards(folder: Path, **values: str) -> Node:
    """A node with four Atlas 300I A2, the second one Critical."""
    node = Node(folder, "a2-pcie", ATLAS="a2", **{"NPU_IDS": "0-3", **values})
    for number in (2, 3):
        node.put(f"/dev/davinci{number}", "")
    node.change("| 2     910B4               | OK      ", "| 2     910B4               | Critical")
    return node


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
    machine: Any = SimpleNamespace(setting=lambda name, default: default, npu_smi=lambda *words: Answer(1, ""))
    assert len([*npu.part_of_cores(machine, report, atlas.named("a2"))]) == 1
    assert not [*npu.part_of_cores(machine, replace(report, dies=report.dies + report.dies[:1]), atlas.named("a2"))]


def test_an_npu_smi_at_another_place(tmp_path: Path):
    node = Node(tmp_path, "a3")
    node.path(driver.NPU_SMI).rename(node.path(driver.NPU_SMI).with_name("moved"))
    assert by_check(node)["driver files"].found == "/usr/local/bin/npu-smi is missing"
    node.put(driver.ELSEWHERE, "")
    assert by_check(node)["driver files"].remedy == "as root: ln -s /usr/local/sbin/npu-smi /usr/local/bin/npu-smi"


def test_nobody_is_judged_where_it_is_not_known_which_card_is_which(tmp_path: Path):
    node = on_cards(tmp_path)
    del node.npu["info", "-m"]
    (found,) = (finding for finding in findings(node) if finding.check == "dies")
    assert found.level == "WARN" and found.found.startswith("which /dev/davinciN is which NPU of 1, 2, 4, 5 is not")
    assert found.found.endswith("NPU 2 has the Health Critical") and "npu-smi info -m" in found.remedy


@pytest.mark.parametrize("folder", ["/usr/local/Ascend/driver", "/models"])
def test_what_this_user_may_not_look_at(tmp_path: Path, folder: str):
    """The driver's folder has the mode 750 on some nodes. It is no trace, and nothing is said to be missing."""
    node = Node(tmp_path, "a3")
    name = {"/models": "weights"}.get(folder, "driver")
    opened = {path: path.stat().st_mode for path in tmp_path.parents if path.stat().st_uid == os.getuid()}
    for path, mode in opened.items():
        path.chmod(mode | 0o055)
    node.path(folder).chmod(0)
    root = os.geteuid() == 0
    try:
        if root:
            os.seteuid(65534)
        found = by_check(node)
    finally:
        if root:
            os.seteuid(0)
        node.path(folder).chmod(0o755)
        for path, mode in opened.items():
            path.chmod(mode)
    assert found[name].level == "WARN" and found[name].found.startswith("this user may not look at ")
    assert str(node.path(folder)) in found[name].found and found[name].remedy.startswith("sudo scripts/preflight.sh")
    assert found["compose"].level == "PASS" and "driver files" not in found


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


def test_a_die_that_fell_off_the_bus(tmp_path: Path):
    """Its device file is there, and npu-smi has no line for it."""
    node = Node(tmp_path, "a3")
    node.put("/dev/davinci2", "")
    lines = node.npu["info",].text.splitlines(keepends=True)
    node.npu["info",] = Answer(0, "".join(lines[:6] + lines[9:]))
    found = [finding for finding in findings(node) if finding.check == "dies"]
    assert found[0].level == "FAIL" and found[0].found == "npu-smi info does not list die 0, whose device file is there"


def test_memory_is_that_of_the_replicas(tmp_path: Path):
    """128 GiB are enough for the two replicas of one card, whatever VLM_MEM_LIMIT would allow, and not for all dies."""
    one = by_check(Node(tmp_path / "one", "a3", NPU_IDS="0-1"))["memory"]
    assert one.level == "PASS"
    whole = Node(tmp_path / "all", "a3", NPU_IDS="")
    whole.put("/proc/meminfo", f"MemTotal: {100 << 20} kB\n")
    found = by_check(whole)["memory"]
    assert (found.level, found.found, found.needed) == ("WARN", "100 GiB", "113 GiB for all replicas and the parser")


@pytest.mark.parametrize(
    ("hardware", "values", "needed"),
    [
        ("ascend", {"PARSER_WORKERS": "16"}, None),
        ("cpu", {"PARSER_WORKERS": "4"}, None),
        ("cpu", {"PARSER_WORKERS": "16"}, "21 GiB for so many"),
        ("ascend", {"PARSER_WORKERS": "16", "PARSER_MEM_LIMIT": "12g"}, "21 GiB for so many"),
    ],
)
def test_workers_fit_into_the_parsers_memory(tmp_path: Path, hardware, values, needed):
    found = by_check(Node(tmp_path, "a3", HARDWARE=hardware, **values)).get("workers")
    assert (found and found.needed) == needed
    assert found is None or found.remedy.startswith("PARSER_MEM_LIMIT=21g in .env")


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


def test_programs_that_sudos_path_lacks():
    """As on Red Hat's relatives, whose secure_path has no folder below /usr/local."""
    words = ["bash", "-c", f'source {ROOT}/scripts/lib/python.sh; printf %s "$PATH"']
    done = subprocess.run(words, env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=True)
    assert done.stdout == "/usr/bin:/bin:/usr/local/sbin:/usr/local/bin"


def test_compose_is_asked_in_this_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert Machine().run("pwd") == f"{ROOT}\n"


def test_the_script_prints_json_and_changes_nothing(tmp_path: Path):
    result = subprocess.run(
        [ROOT / "scripts/preflight.sh", "--hardware", "cpu", "--json"], capture_output=True, text=True, check=False
    )
    rows = json.loads(result.stdout)
    assert result.returncode == (1 if any(row["level"] == "FAIL" for row in rows) else 0)
    assert {row["check"] for row in rows} >= {"processor", "system", "memory", "engine", "weights"}


def test_every_check_is_run():
    import bundle.preflight

    modules = (host, driver, npu, engine, reach, weights)
    assert {path.stem for path in Path(bundle.preflight.__file__).parent.glob("*.py")} - {
        "__init__",
        "__main__",
        "machine",
    } == {module.__name__.rpartition(".")[2] for module in modules}
    for module in modules:
        assert set(module.CHECKS) >= {
            value
            for name, value in vars(module).items()
            if name.startswith("check_") and name not in ("check_report", "check_permissions", "check_sharing")
        }
