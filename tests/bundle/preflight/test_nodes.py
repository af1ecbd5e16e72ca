# SPDX-License-Identifier: Apache-2.0
"""preflight.sh as a whole: A3, A2, 310P, a CPU machine; and what changes when something is wrong."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from bundle.compose import images
from bundle.preflight import driver, engine, host, npu, reach, weights
from bundle.preflight.__main__ import findings, show
from tests.bundle.preflight.node import Node, built_for, by_check
from tests.support.paths import ROOT


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
        (lambda node: setattr(node, "port_error", errno.EADDRINUSE), "port", "FAIL", "8080 on 127.0.0.1 is taken"),
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


def test_a_secret_is_never_shown(tmp_path: Path):
    node = Node(tmp_path, "a3", PARSER_API_KEYS="mysecret")
    assert not any("mysecret" in show(finding) for finding in findings(node))


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
