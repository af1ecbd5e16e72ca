# SPDX-License-Identifier: Apache-2.0
"""What compose makes of its files, compared with reviewed snapshots; UPDATE_SNAPSHOTS=1 writes them anew."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.images.project import Project
from tests.support.paths import ROOT

SNAPSHOTS = Path(__file__).parent / "snapshots"
CASES = {
    "cpu": {"HARDWARE": "cpu"},
    "cpu-0.23.0-two-replicas": {"HARDWARE": "cpu", "STACK": "0.23.0", "VLM_REPLICAS": "2"},
    "ascend": {"HARDWARE": "ascend"},
    "ascend-one-die-0.23.0": {"HARDWARE": "ascend", "STACK": "0.23.0", "NPU_IDS": "0"},
}
EXPORTER = {"ascend-npu-exporter": {"HARDWARE": "ascend", "COMPOSE_PROFILES": "npu-exporter"}}


def rendered(engine, settings: dict[str, str]) -> dict[str, Any]:
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


@pytest.mark.parametrize("name", CASES | EXPORTER)
def test_configuration_is_the_reviewed_one(engine, name: str):
    found, path = rendered(engine, (CASES | EXPORTER)[name]), SNAPSHOTS / f"{name}.yaml"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        path.write_text(
            "# Written by tests/images/cpu/test_compose_files.py with UPDATE_SNAPSHOTS=1; review every change.\n"
            + yaml.safe_dump(found, sort_keys=True, width=120)
        )
    assert found == yaml.safe_load(path.read_text())


@pytest.mark.parametrize("name", CASES)
def test_no_fragment_loosens_what_holds_the_containers_in(engine, name: str):
    services = rendered(engine, CASES[name])["services"]
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


def test_npu_exporter_is_beside_the_others(engine):
    """It alone is privileged, as its own manifest has it: none reaches it, and it reaches none."""
    [settings] = EXPORTER.values()
    services = rendered(engine, settings)["services"]
    exporter = services.pop("npu-exporter")
    assert services == rendered(engine, CASES["ascend"])["services"]
    assert exporter["privileged"] and exporter["read_only"] and exporter["mem_limit"] and exporter["pids_limit"]
    assert not {network for service in services.values() for network in service["networks"]} & {*exporter["networks"]}
    [port] = exporter["ports"]
    assert port["host_ip"] == "127.0.0.1" and all(volume["read_only"] for volume in exporter["volumes"])
    assert not [volume for volume in exporter["volumes"] if "sock" in volume["source"] or "/run" in volume["source"]]


def test_the_parser_is_one_image_for_every_kind_of_hardware(engine):
    parsers = [rendered(engine, settings)["services"]["parser"] for settings in CASES.values()]
    assert {parser["image"] for parser in parsers} == {parsers[0]["image"]}
    assert all(parser["build"] == parsers[0]["build"] for parser in parsers)
    hardware = [parser["environment"]["HARDWARE"] for parser in parsers]
    assert hardware == [settings["HARDWARE"] for settings in CASES.values()]


def test_ascend_gets_the_dies_that_are_named_and_the_driver_read_only(engine):
    vlm = rendered(engine, CASES["ascend-one-die-0.23.0"])["services"]["vlm"]
    assert [device["source"] for device in vlm["devices"]] == [
        "/dev/davinci0",
        "/dev/davinci_manager",
        "/dev/devmm_svm",
        "/dev/hisi_hdc",
    ]
    assert vlm["group_add"] == ["1000"] and int(vlm["shm_size"]) == 2**30
    sources = {volume["source"] for volume in vlm["volumes"]}
    assert {
        "/usr/local/dcmi",
        "/usr/local/bin/npu-smi",
        "/usr/local/Ascend/driver/lib64",
        "/etc/ascend_install.info",
    } <= sources
    assert "ASCEND_VISIBLE_DEVICES" not in vlm["environment"]
    everything = rendered(engine, CASES["ascend"])["services"]["vlm"]["devices"]
    assert len(everything) == 16 + 3
