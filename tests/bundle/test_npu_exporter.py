# SPDX-License-Identifier: Apache-2.0
"""npu-exporter beside the bundle: what compose gives it, how Prometheus finds it, which of its metrics are shown."""

from __future__ import annotations

import json
import re

import yaml

from tests.support.paths import DATA, ROOT

PROMETHEUS = ROOT / "config/prometheus"
LINES = (DATA / "npu-exporter/names.txt").read_text().splitlines()
NAMES = {line for line in LINES if not line.startswith("#")}
PANELS = json.loads((ROOT / "config/grafana/docparser.json").read_text())["panels"]
QUERIES = " ".join(target["expr"] for panel in PANELS for target in panel.get("targets", ()))


def published(text: str) -> set[str]:
    return set(re.findall(r"\bnpu_\w+|\bmachine_npu\w+", text))


def test_the_dashboard_and_the_alerts_ask_for_what_it_publishes():
    asked = published(QUERIES)
    for what in ("_temperature", "_hbm_used_memory", "_ecc_total_double_bit", "_info_utilization", "_health_status"):
        assert any(what in name for name in asked), f"no panel shows {what}"
    assert asked <= NAMES
    rules = yaml.safe_load((PROMETHEUS / "alerts.yaml").read_text())["groups"][0]["rules"]
    alerts = published(" ".join(rule["expr"] for rule in rules))
    assert alerts and alerts <= NAMES


def test_panels_do_not_overlap():
    places = [panel["gridPos"] for panel in PANELS]
    cells = [
        (x, y)
        for place in places
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells)) and len({panel["id"] for panel in PANELS}) == len(PANELS)


def test_it_starts_with_its_profile_alone_and_is_published_on_loopback():
    service = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]["npu-exporter"]
    assert service["profiles"] == ["npu-exporter"] and service["networks"] == ["monitoring"]
    fragment = yaml.safe_load((ROOT / service["extends"]["file"]).read_text())["services"]["npu-exporter"]
    [port] = service["ports"]
    parts = re.fullmatch(r"([\d.]+):\$\{NPU_EXPORTER_PORT:-(\d+)\}:(\d+)", port)
    assert parts
    address, published_port, inside = parts.groups()
    assert address == "127.0.0.1" and f"-port={inside}" in fragment["command"]
    jobs = yaml.safe_load((PROMETHEUS / "prometheus.yaml").read_text())["scrape_configs"]
    targets = {job["job_name"]: job["static_configs"][0]["targets"] for job in jobs}
    assert targets["npu-exporter"] == [f"127.0.0.1:{published_port}"]
    parser = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]["parser"]
    assert "PARSER_PORT:-8080" in parser["ports"][0] and targets["docparser"] == ["127.0.0.1:8080"]


def test_its_mounts_are_read_only_and_none_is_an_engine():
    fragment = yaml.safe_load((ROOT / "config/compose/npu-exporter.yaml").read_text())["services"]["npu-exporter"]
    assert all(volume["read_only"] and volume["source"].startswith("/usr/local/") for volume in fragment["volumes"])
    # Its log rotates at 20 MB: the file that is written and two more.
    assert "-maxBackups=2" in fragment["command"] and "size=64m" in fragment["tmpfs"][0]
