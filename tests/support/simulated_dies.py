# SPDX-License-Identifier: Apache-2.0
"""Calls of `docker`, and a program `npu-smi`, for containers on dies that belong to one, as Ascend's driver has it as
shipped.

Simulated, because no die and no engine is here: the container that opens a die first has it, and another one that was
given it starts again and again, as the device check makes it. Dies are shared only where the test says so.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from bundle.compose import dies, images, project, upgrade
from tests.support.paths import ROOT
from tests.support.recorded_npu_smi import SAMPLES

IMAGE = images.vlm("a3", "0.11.1")
# The halves of 16 dies.
FIRST, SECOND = list(range(8)), list(range(8, 16))


class SimulatedDies:
    """`tags` are images by name, `env` is .env. Containers open their dies in `order`; `mixed`: none got all of its
    own. One that is `loading` runs and does not answer yet. The bundle's `vlm` runs on all 16 dies of an A3 at first.
    The files of the dies lie in `folder`/dies; what npu-smi prints stands in `folder`/info and `folder`/share."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, image: str) -> None:
        vlm = {
            "image": "sha256:old",
            "dies": list(range(16)),
            "aliases": ["vlm"],
            "half": "all",
            "env": dict.fromkeys(PASSED, ""),
        }
        state = {"tags": {image: "sha256:old"}, "name": image, "containers": {"vlm": vlm}, "shared": False, "calls": []}
        state |= {"order": ["vlm"], "mixed": False}
        self.write({**state, "env": {}})
        shutil.copytree(dies.FOLDER, folder / "dies", ignore=shutil.ignore_patterns("present*"))
        monkeypatch.setattr(dies, "FOLDER", folder / "dies")
        monkeypatch.setattr(project, "call", self.call)
        program = folder / "bin/npu-smi"
        program.parent.mkdir()
        program.write_text(
            f'#!/bin/sh\ncase "$*" in *device-share*) cat {folder}/share;; *) cat {folder}/info;; esac\n'
        )
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")

    def call(
        self, *words: str, timeout: float | None, settings: Mapping[str, str] | None = None, show: bool = False
    ) -> subprocess.CompletedProcess[str]:
        """What takes the place of bundle.compose.project.call."""
        state = self.state
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            status = answer(state, list(words[1:]), {**state["env"], **os.environ, **(settings or {})}, dies.FOLDER)
        self.write(state)
        return subprocess.CompletedProcess(words, status, printed.getvalue(), "")

    def write(self, state: dict[str, Any]) -> None:
        self._text = json.dumps(state)

    @property
    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._text)
        return found

    def change(self, **values: Any) -> None:
        self.write({**self.state, **values})

    @property
    def containers(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = self.state["containers"]
        return found

    @property
    def dies(self) -> dict[str, list[int]]:
        return {name: container["dies"] for name, container in self.containers.items()}

    def build(self, image: str) -> None:
        """A new version under the name that compose uses."""
        state = self.state
        state["tags"][state["name"]] = image
        self.write(state)


def conflicts(state: dict[str, Any], service: str) -> bool:
    """Whether another container holds a die of this one: it opened it before."""
    if state["shared"]:
        return False
    held: set[int] = set()
    for name in state["order"]:
        own = set(state["containers"][name]["dies"])
        if name == service:
            others = [set(one["dies"]) for other, one in state["containers"].items() if other != name]
            return bool(own & held) or (state["mixed"] and any(own & other for other in others))
        if not own & held and not broken(state, name):
            held |= own
    return False


def wrong(state: dict[str, Any], service: str) -> str:
    """What the last line of a container's log says, an empty text where it serves."""
    if conflicts(state, service):
        return "error: another container holds the dies (-8020); docker ps names it"
    return broken(state, service)


def broken(state: dict[str, Any], service: str) -> str:
    """The last line of a container that ends for a reason of its own."""
    one = state["containers"][service]
    if one["image"] == "sha256:old" and one["env"].get("VLM_GRAPH_MODE") == "full_decode_only":
        return (
            "error: VLM_GRAPH_MODE asks for FULL_DECODE_ONLY, but stack 0.11.1 pads the steps of these graphs wrongly"
        )
    if one["image"] == "sha256:old" and one["env"].get("VLM_NEWER"):
        return "error: VLM_NEWER is set, and nothing reads it"
    if one["image"] == "sha256:broken":
        return "error: this version is broken"
    if one.get("replicas") and int(one["replicas"]) > len(one["dies"]):
        return f"error: VLM_REPLICAS is {one['replicas']}, but NPU_IDS gives {len(one['dies'])} dies"
    return ""


# What the file of the VLM's service gives to its container, empty where .env has none.
PASSED = ("VLM_MODEL", "VLM_GRAPH_MODE", "VLM_CORES", "LAYOUT_DEVICE")
# What only the file of the new version gives; sha256:old does not know it.
PASSED_NOW = (*PASSED, "VLM_NEWER")


def up(state: dict[str, Any], service: str, values: Mapping[str, str], folder: Path) -> None:
    name = values.get("NPU_IDS") or "a3"
    hardware = values.get("HARDWARE") or "ascend"
    reads = "${VLM_IMAGE:-" in (ROOT / f"config/compose/{hardware}.yaml").read_text()
    image = state["tags"][(values.get("VLM_IMAGE") if reads else "") or state["name"]]
    text = (folder / f"{name}.yaml").read_text() if hardware == "ascend" else ""
    numbers = [int(number) for number in re.findall(r"/dev/davinci(\d+)$", text, re.MULTILINE)]
    half = values.get("VLM_NEXT_HALF", "second") if service == "vlm-next" else state["containers"]["vlm"]["half"]
    made = {"image": image, "dies": numbers, "aliases": [service], "half": half or "all"}
    own = {"replicas": values.get("VLM_REPLICAS", ""), "env": {name: values.get(name, "") for name in PASSED_NOW}}
    state["containers"][service] = {**made, **own}
    state["order"] = [*(name for name in state["order"] if name != service), service]


def answer(state: dict[str, Any], words: list[str], values: Mapping[str, str], folder: Path) -> int:
    """Do what a call of docker with these variables asks, and print what it prints; returns the exit status."""
    state["calls"].append(" ".join(words))
    containers = state["containers"]
    words = [word for word in words if word not in ("--profile", "upgrade")]
    match words:
        case ["compose", "ps", *_]:
            for name, one in containers.items():
                stands = "exited" if one.get("ended") else "restarting" if wrong(state, name) else "running"
                health = "healthy" if stands == "running" and not one.get("loading") else "starting"
                print(json.dumps({"Service": name, "State": stands, "Health": health, "ID": name, "Project": "p"}))
        case ["compose", "config", "--images", _]:
            print(state["name"])
        case ["compose", "config", "--format", "json", service]:
            print(json.dumps({"services": {service: {"environment": dict.fromkeys(PASSED_NOW, "")}}}))
        case ["compose", "up", *_, service]:
            up(state, service, values, folder)
        case ["compose", "logs", *_, "--tail", most, service]:
            # What ends behind the error writes too.
            print(*[wrong(state, service), *["stopped: vlm-0"] * 200][-int(most) :], sep="\n")
        case ["compose", "exec", "-T", service, *_, "container.take_half", half]:
            containers[service]["half"] = half
        case ["compose", "exec", "-T", _, *_, "container.status"]:
            print(json.dumps({"configured": 1, "replicas": [{"up": True}]}))
        case ["compose", "exec", "-T", service, _, "-c", asked] if "/v1/models" in asked:
            if not wrong(state, service):
                print(json.dumps({"data": [{"root": containers[service].get("root", "/opt/demo")}]}))
        case ["compose", "exec", *_] if "selftest.read" in words:
            print(json.dumps([{"replica": 0, "text": "A sentence.", "seconds": 1.0, "error": ""}]))
        case ["compose", "exec", *_]:
            pass  # the self-test passes
        case ["compose", "rm", *_, service]:
            del containers[service]
            state["order"].remove(service)
        case ["image", "inspect", *_, name]:
            if name not in state["tags"]:
                return 1
            print(state["tags"][name])
        case ["inspect", name]:
            one = containers[name]
            devices = [
                {"PathOnHost": f"/dev/{die}"} for die in ("davinci_manager", *(f"davinci{n}" for n in one["dies"]))
            ]
            found = {
                "Image": one["image"],
                "HostConfig": {"Devices": devices},
                "Config": {"Env": [f"{name}={value}" for name, value in one["env"].items()]},
                "NetworkSettings": {"Networks": {"n": {"Aliases": one["aliases"]}}},
            }
            print(json.dumps([found]))
        case ["tag", old, new]:
            state["tags"][new] = state["tags"].get(old, old)
        case ["network", "connect", *rest]:
            containers[rest[-1]]["aliases"] = rest[1:4:2]
        case _:
            pass
    return 0


def table(numbers: Iterable[int]) -> str:
    """What `npu-smi info` prints for these dies of an A3, in the form of tests/data/npu-smi/a3.txt."""
    lines = (SAMPLES / "a3.txt").read_text().splitlines(keepends=True)
    rows = (
        f"| {number // 2:<5} Ascend910           | OK            | 166.5       38                0    / 0       |\n"
        f"| {number % 2:<5} {number:<19} | 0000:9D:00.0  | 0           0    / 0          3131 / 65536         |\n"
        for number in numbers
    )
    return "".join((*lines[:6], *rows, lines[5]))


def without(folder: Path, gone: int) -> None:
    """Let a die of the node in ``folder`` be gone: its device file, and its line in npu-smi."""
    (folder / f"dev/davinci{gone}").unlink()
    (folder / "info").write_text(table(number for number in range(16) if number != gone))


def settings(node: SimulatedDies, monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    """What .env says from now on."""
    node.change(env=values)
    monkeypatch.setattr(upgrade, "VALUES", values)
