# SPDX-License-Identifier: Apache-2.0
"""A node made of recorded outputs, which preflight judges."""

from __future__ import annotations

import json
import os
from pathlib import Path

from bundle.preflight import driver
from bundle.preflight.__main__ import findings
from bundle.preflight.machine import Finding, Machine
from npu_smi import DRIVER_DEVICES, Answer
from served_weights import layout, manifest
from tests.support.recorded_npu_smi import SAMPLES

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
    """A node of recorded outputs below a scratch folder; `answers` maps the begin of a command to its output, and
    `calls` are the commands so far."""

    def __init__(self, folder: Path, sample: str | None, **values: str) -> None:
        self.port_error, self.lacks, self.calls = 0, list[str](), list[tuple[str, ...]]()
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
            ("docker", "version"): "28.5.2\n",
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
        self.calls.append(command)
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

    def port_trouble(self, host: str, port: int) -> OSError | None:
        return OSError(self.port_error, os.strerror(self.port_error)) if self.port_error else None


def by_check(machine: Machine) -> dict[str, Finding]:
    return {finding.check: finding for finding in findings(machine)}


def on_cards(folder: Path, **values: str) -> Node:
    """A node with four Atlas 300I A2, the second one Critical."""
    node = Node(folder, "a2-pcie", ATLAS="a2", **{"NPU_IDS": "0-3", **values})
    for number in (2, 3):
        node.put(f"/dev/davinci{number}", "")
    node.change("| 2     910B4               | OK      ", "| 2     910B4               | Critical")
    return node
