# SPDX-License-Identifier: Apache-2.0
"""What the services are for the settings of tests/images/cpu/snapshots, which Compose itself is compared with where an
engine runs: here without one, by our own reading of the files."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from container.vlm import DEFAULTS
from tests.support.docs import all_blocks
from tests.support.kubernetes import compose_service
from tests.support.paths import ROOT

SNAPSHOTS = ROOT / "tests/images/cpu/snapshots"
CASES = {
    "cpu": {"HARDWARE": "cpu"},
    "cpu-0.23.0-two-replicas": {"HARDWARE": "cpu", "STACK": "0.23.0", "VLM_REPLICAS": "2"},
    "ascend": {"HARDWARE": "ascend"},
    "ascend-one-die-0.23.0": {"HARDWARE": "ascend", "STACK": "0.23.0", "NPU_IDS": "0"},
    "ascend-npu-exporter": {"HARDWARE": "ascend"},
}
UNITS = {"k": 10, "m": 20, "g": 30}
HERE = re.compile(rf"^(?:<checkout>|{re.escape(str(ROOT))}|\.)(?=/|$)")


def volume(text: str | dict[str, Any]) -> tuple[str, str, str, bool]:
    if isinstance(text, str):
        source, target, *mode = text.split(":")
        return "volume", source, target, mode == ["ro"]
    return text["type"], HERE.sub("", text["source"]), text["target"], text.get("read_only", False)


def port(text: str | dict[str, Any]) -> str:
    return text if isinstance(text, str) else f"{text['host_ip']}:{text['published']}:{text['target']}"


def size(text: str) -> int:
    return int(text) if text.isdigit() else int(text[:-1]) << UNITS[text[-1]]


def duration(text: str) -> int:
    return sum(int(count) * {"h": 3600, "m": 60, "s": 1}[unit] for count, unit in re.findall(r"(\d+)([hms])", text))


def names(value: list[Any] | dict[str, Any] | None) -> list[str]:
    """Of a list of names or of mappings with a `source`, or of a mapping by name."""
    return sorted(one["source"] if isinstance(one, dict) else one for one in value or ())


def build(found: dict[str, Any]) -> dict[str, Any]:
    contexts = {name: HERE.sub("", text) for name, text in found.get("additional_contexts", {}).items()}
    args = {name: str(text or "") for name, text in found.get("args", {}).items()}
    return {
        **found,
        "context": "",
        "additional_contexts": contexts,
        "args": args,
        "secrets": names(found.get("secrets")),
    }


# Key of a service -> what is compared of it, for the two ways in which the files and Compose write the same.
FORMS: dict[str, Callable[[Any], Any]] = {
    "build": build,
    "depends_on": lambda found: {name: one["condition"] for name, one in found.items()},
    "devices": lambda found: sorted(one if isinstance(one, str) else one["source"] for one in found),
    "environment": lambda found: {name: str(value) for name, value in found.items() if value},
    "healthcheck": lambda found: {
        name: duration(value) if isinstance(value, str) else value for name, value in found.items()
    },
    "networks": names,
    "ports": lambda found: sorted(map(port, found)),
    "stop_grace_period": duration,
    "tmpfs": sorted,
    "ulimits": lambda found: {
        name: one["hard"] if isinstance(one, dict) and one["hard"] == one["soft"] else one
        for name, one in found.items()
    },
    "volumes": lambda found: sorted(map(volume, found)),
    **dict.fromkeys(("mem_limit", "memswap_limit", "shm_size"), size),
    "pids_limit": int,
}


def compared(service: dict[str, Any]) -> dict[str, Any]:
    return {
        key: FORMS.get(key, lambda found: found)(value)
        for key, value in {"environment": {}, **service}.items()
        if key not in ("profiles", "command", "entrypoint") or value
    }


@pytest.mark.parametrize("name", CASES)
def test_each_service_is_the_reviewed_one(name: str):
    snapshot = yaml.safe_load((SNAPSHOTS / f"{name}.yaml").read_text())["services"]
    assert {"vlm", "parser"} <= set(snapshot)
    for service, expected in snapshot.items():
        assert compared(compose_service(service, **CASES[name])) == compared(expected), service


@pytest.mark.parametrize("page", ["docs/secure.md", "docs/zh-CN/secure.md"])
def test_the_guides_file_lets_the_vlm_reach_out_and_be_reached(page: str):
    (text,) = (block.text for block in all_blocks(ROOT / page) if block.language == "yaml" and "vlm:" in block.text)
    own = yaml.safe_load(text)["services"]["vlm"]
    networks = yaml.safe_load((ROOT / "compose.yaml").read_text())["networks"]
    assert networks["internal"] == {"internal": True} and networks["default"] == {}
    assert compose_service("vlm", "cpu")["networks"] == ["internal"] and own["networks"] == ["internal", "default"]
    assert own["ports"] == [f"127.0.0.1:8000:{DEFAULTS['VLM_PORT']}"]


@pytest.mark.parametrize("service", ["vlm", "parser", "corpus"])
def test_a_limit_of_memory_is_that_of_memory_and_swap(service: str):
    """The engine makes no container whose second limit is the lower one. Each service has its own setting."""
    own = f"{service.upper()}_MEM_LIMIT"
    for setting, expected in ((own, 7 << 30), *((f"{other}_MEM_LIMIT", None) for other in ("VLM", "PARSER", "CORPUS"))):
        found = compared(compose_service(service, HARDWARE="cpu", **{setting: "7g"}))
        assert found["mem_limit"] == found["memswap_limit"]
        assert expected is None or found["mem_limit"] == expected


@pytest.mark.parametrize("service", ["vlm", "parser", "corpus"])
def test_no_image_of_ours_is_asked_of_a_registry(service: str):
    """Whoever owns our name there would have their code run. `up` builds a missing image all the same."""
    found = compose_service(service, HARDWARE="cpu")
    assert found["build"] and found["pull_policy"] == "never"


def test_no_command_of_the_guide_asks_a_registry_for_our_images():
    pages = [ROOT / "README.md", ROOT / "README.zh-CN.md", *(ROOT / "docs").rglob("*.md")]
    lines = [line for page in pages for block in all_blocks(page) for line in block.text.splitlines()]
    commands = [line for line in lines if line.startswith("docker run ")]
    assert commands and all("--pull never " in command for command in commands)
