# SPDX-License-Identifier: Apache-2.0
"""What compose makes of its files, compared with reviewed snapshots; UPDATE_SNAPSHOTS=1 writes them anew."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.images.project import Project
from tests.support.engine.daemon import Engine
from tests.support.paths import ROOT

SNAPSHOTS = Path(__file__).parent / "snapshots"
CASES = {
    "cpu": {"HARDWARE": "cpu"},
    "cpu-0.23.0-two-replicas": {"HARDWARE": "cpu", "STACK": "0.23.0", "VLM_REPLICAS": "2"},
    "ascend": {"HARDWARE": "ascend"},
    "ascend-one-die-0.23.0": {"HARDWARE": "ascend", "STACK": "0.23.0", "NPU_IDS": "0"},
    "ascend-npu-exporter": {"HARDWARE": "ascend", "COMPOSE_PROFILES": "npu-exporter"},
}


def rendered(engine: Engine, settings: dict[str, str]) -> dict[str, Any]:
    """The configuration with nothing but `settings`, the checkout's path taken out. Settings that only pass, empty
    unless somebody sets them, are left out: tests/parser/test_settings.py holds them."""
    keep = ("PATH", "HOME", "DOCKER_HOST", "DOCKER_CONFIG")
    env = {key: value for key, value in engine.environment.items() if key in keep}
    text = Project("snapshot", env | settings | {"COMPOSE_DISABLE_ENV_FILE": "1"}).compose("config").stdout
    found = yaml.safe_load(text.replace(str(ROOT), "<checkout>"))
    for service in found["services"].values():
        environment = service.get("environment", {})
        service["environment"] = {name: value for name, value in environment.items() if value}
    return {name: value for name, value in found.items() if not name.startswith("x-")}


@pytest.fixture(scope="module")
def configurations(engine: Engine) -> dict[str, dict[str, Any]]:
    return {name: rendered(engine, settings) for name, settings in CASES.items()}


@pytest.mark.parametrize("name", CASES)
def test_configuration_is_the_reviewed_one(configurations: dict[str, dict[str, Any]], name: str):
    found, path = configurations[name], SNAPSHOTS / f"{name}.yaml"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        path.write_text(
            "# Written by tests/images/cpu/test_compose_files.py with UPDATE_SNAPSHOTS=1; review every change.\n"
            + yaml.safe_dump(found, sort_keys=True, width=120)
        )
    assert found == yaml.safe_load(path.read_text())


@pytest.mark.parametrize("name", CASES)
def test_no_fragment_loosens_what_holds_the_containers_in(configurations: dict[str, dict[str, Any]], name: str):
    """Whoever reviews a snapshot must not overlook it."""
    services = {key: value for key, value in configurations[name]["services"].items() if key != "npu-exporter"}
    assert set(services) == {"vlm", "parser"}
    for service in services.values():
        assert service["cap_drop"] == ["ALL"] and service["read_only"] and "cap_add" not in service
        assert service["security_opt"] == ["no-new-privileges:true"] and not service.get("privileged")
        assert service["mem_limit"] == service["memswap_limit"] and service["pids_limit"]
        assert service["stop_grace_period"]
        assert service["restart"] == "always" and service["logging"]["options"]["max-size"]
        assert all(volume.get("read_only") for volume in service["volumes"] if volume["type"] == "bind")
    assert "ports" not in services["vlm"] and services["parser"]["ports"][0]["host_ip"] == "127.0.0.1"
    assert services["parser"]["depends_on"]["vlm"]["condition"] == "service_healthy"


def test_npu_exporter_is_beside_the_others(configurations: dict[str, dict[str, Any]]):
    """It alone is privileged, as its own manifest has it: none reaches it, and it reaches none."""
    others = configurations["ascend"]["services"]
    services = configurations["ascend-npu-exporter"]["services"]
    exporter = services["npu-exporter"]
    assert services == {**others, "npu-exporter": exporter}
    assert not {network for service in others.values() for network in service["networks"]} & {*exporter["networks"]}
    assert not [volume for volume in exporter["volumes"] if "sock" in volume["source"] or "/run" in volume["source"]]


def test_the_parser_is_one_image_for_every_kind_of_hardware(configurations: dict[str, dict[str, Any]]):
    parsers = {name: found["services"]["parser"] for name, found in configurations.items()}
    one = parsers["cpu"]
    assert all((parser["image"], parser["build"]) == (one["image"], one["build"]) for parser in parsers.values())
    hardware = {name: parser["environment"]["HARDWARE"] for name, parser in parsers.items()}
    assert hardware == {name: settings["HARDWARE"] for name, settings in CASES.items()}
