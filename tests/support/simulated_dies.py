# SPDX-License-Identifier: Apache-2.0
"""A program `docker` for two containers on dies that belong to one container, as Ascend's driver has it as shipped.

Simulated, because no die and no engine is here: a container whose dies another one holds starts again and again, as the
device check makes it. Dies are shared only where the test says so.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest  # each call of the program would load it

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """#!/bin/sh
PYTHONPATH={root} exec {python} -S -m tests.support.simulated_dies {folder} "$@"
"""


class SimulatedDies:
    """`tags` are images by name, `env` is .env. The bundle's `vlm` runs on all 16 dies of an A3 at first."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, image: str) -> None:
        self._file = folder / "engine.json"
        vlm = {
            "image": "sha256:old",
            "dies": list(range(16)),
            "taken": "all",
            "aliases": ["vlm"],
            "half": "all",
            "env": [""],
        }
        state = {"tags": {image: "sha256:old"}, "name": image, "containers": {"vlm": vlm}, "shared": False, "calls": []}
        self.write({**state, "env": {}})
        (folder / "bin").mkdir()
        for name, text in {
            "docker": PROGRAM.format(python=sys.executable, root=str(ROOT), folder=str(self._file)),
            "npu-smi": f'#!/bin/sh\ncase "$*" in *device-share*) cat {folder}/share;; *) cat {folder}/info;; esac\n',
        }.items():
            (folder / "bin" / name).write_text(text)
            (folder / "bin" / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder / 'bin'}:{os.environ['PATH']}")

    def write(self, state: dict[str, Any]) -> None:
        self._file.write_text(json.dumps(state))

    @property
    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._file.read_text())
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
    mine = set(state["containers"][service]["dies"])
    others = [set(one["dies"]) for name, one in state["containers"].items() if name != service]
    return not state["shared"] and any(mine & other for other in others)


def wrong(state: dict[str, Any], service: str) -> str:
    """What the last line of a container's log says, an empty text where it serves."""
    one = state["containers"][service]
    if conflicts(state, service):
        return "error: another container holds the dies (-8020); docker ps names it"
    if one["image"] == "sha256:old" and "full_decode_only" in one.get("env", ()):
        return "error: VLM_GRAPH_MODE asks for FULL_DECODE_ONLY, whose steps stack 0.11.1 fills up wrongly"
    if one["image"] == "sha256:broken":
        return "error: this version is broken"
    if one.get("replicas") and int(one["replicas"]) > len(one["dies"]):
        return f"error: VLM_REPLICAS is {one['replicas']}, but NPU_IDS gives {len(one['dies'])} dies"
    return ""


def up(state: dict[str, Any], service: str) -> None:
    values = {**state["env"], **os.environ}
    name = values.get("NPU_IDS") or "a3"
    image = state["tags"][values.get("VLM_IMAGE") or state["name"]]
    text = (ROOT / f"config/compose/dies/{name}.yaml").read_text()
    numbers = [int(number) for number in re.findall(r"/dev/davinci(\d+)$", text, re.MULTILINE)]
    half = values.get("VLM_NEXT_HALF", "second") if service == "vlm-next" else state["containers"]["vlm"]["half"]
    made = {"image": image, "dies": numbers, "aliases": [service], "half": half or "all"}
    own = {"replicas": values.get("VLM_REPLICAS", ""), "env": [values.get("VLM_GRAPH_MODE", "")]}
    state["containers"][service] = {**made, **own}


def answer(file: str, words: list[str]) -> int:
    """Do what a call asks; returns the exit status."""
    state: dict[str, Any] = json.loads(Path(file).read_text())
    state["calls"].append(" ".join(words))
    containers = state["containers"]
    words = [word for word in words if word not in ("--profile", "upgrade")]
    match words:
        case ["compose", "ps", *_]:
            for name in containers:
                stands = "restarting" if wrong(state, name) else "running"
                health = "healthy" if stands == "running" else "starting"
                print(json.dumps({"Service": name, "State": stands, "Health": health, "ID": name, "Project": "p"}))
        case ["compose", "config", "--images", _]:
            print(state["name"])
        case ["compose", "up", *_, service]:
            up(state, service)
        case ["compose", "logs", *_, service]:
            print(wrong(state, service))
        case ["compose", "exec", "-T", service, *_, "container.take_half", half]:
            containers[service]["half"] = half
        case ["compose", "exec", "-T", _, *_, "container.status"]:
            print(json.dumps({"configured": 1, "replicas": [{"up": True}]}))
        case ["compose", "exec", "-T", service, _, "-c", asked] if "/v1/models" in asked:
            print(json.dumps({"data": [{"root": state["containers"][service].get("root", "/models/demo")}]}))
        case ["compose", "exec", *_]:
            pass  # the self-test passes
        case ["compose", "rm", *_, service]:
            del containers[service]
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
                "Config": {"Env": [f"VLM_GRAPH_MODE={mode}" for mode in one.get("env", ())]},
                "NetworkSettings": {"Networks": {"n": {"Aliases": one["aliases"]}}},
            }
            print(json.dumps([found]))
        case ["tag", old, new]:
            state["tags"][new] = old
        case ["network", "connect", *rest]:
            containers[rest[-1]]["aliases"] = rest[1:4:2]
        case _:
            pass
    Path(file).write_text(json.dumps(state))
    return 0


if __name__ == "__main__":
    sys.exit(answer(sys.argv[1], sys.argv[2:]))
