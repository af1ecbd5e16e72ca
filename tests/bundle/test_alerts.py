# SPDX-License-Identifier: Apache-2.0
"""The alert rules: promtool checks them, and each one fires on made-up series and is quiet on others."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from container import metrics
from tests.support.paths import ROOT
from tests.support.system_packages import needs

RULES = ROOT / "config/prometheus/alerts.yaml"
ALERTS = {rule["alert"]: rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]}
promtool = needs("prometheus")
UP, CONFIGURED = "docparser_vlm_replicas_up", "docparser_vlm_replicas_configured"
# Alert -> series by minute (value x repetitions) on which it fires, and on which it does not.
SERIES = {
    "ParserDown": ({'up{job="docparser"}': "0x30"}, {'up{job="docparser"}': "1x30"}),
    "VlmDown": ({UP: "0x30"}, {UP: "1x30"}),
    "VlmReplicasMissing": ({UP: "15x30", CONFIGURED: "16x30"}, {UP: "16x30", CONFIGURED: "16x30"}),
    "DiesMissing": ({"docparser_vlm_dies_missing": "1x30"}, {"docparser_vlm_dies_missing": "0x30"}),
    "DieUnhealthy": (
        {'npu_chip_info_health_status{id="3"}': "0x30"},
        {'npu_chip_info_health_status{id="3"}': "1x30"},
    ),
    "DieMemoryErrors": (
        {'npu_chip_info_hbm_ecc_total_double_bit_error_cnt{id="3"}': "0x10 2x20"},
        {'npu_chip_info_hbm_ecc_total_double_bit_error_cnt{id="3"}': "2x30"},
    ),
    "LayoutServerAway": ({"docparser_layout_server_away": "1x30"}, {"docparser_layout_server_away": "1x5 0x25"}),
    "PagesWait": ({"docparser_queue_oldest_seconds": "601x30"}, {"docparser_queue_oldest_seconds": "599x30"}),
    "PagesFail": (
        {
            'docparser_pages_total{outcome="failed"}': "0+10x30",
            'docparser_pages_total{outcome="ok"}': "0+100x30",
        },
        {
            'docparser_pages_total{outcome="failed"}': "0+1x30",
            'docparser_pages_total{outcome="ok"}': "0+100x30",
        },
    ),
    "ParserOutOfMemory": ({"docparser_oom_kills_total": "0x20 1x10"}, {"docparser_oom_kills_total": "1x30"}),
    "VlmOutOfMemory": ({"docparser_vlm_oom_kills_total": "0x20 1x10"}, {"docparser_vlm_oom_kills_total": "1x30"}),
    "ParserRestarts": ({"docparser_start_time_seconds": "0+60x30"}, {"docparser_start_time_seconds": "7x30"}),
    "VlmRestarts": ({UP: "1 0 1 0 1 0 1x24"}, {UP: "0x5 1x10 2x15"}),
    "JobsNotStored": ({"docparser_jobs_ready": "0x30"}, {"docparser_jobs_ready": "0x5 1x25"}),
    "WorkersRestart": ({"docparser_worker_restarts_total": "0+1x30"}, {"docparser_worker_restarts_total": "0x30"}),
}


def test_every_rule_is_tried_and_says_what_to_do():
    assert set(SERIES) == set(ALERTS)
    for name, rule in ALERTS.items():
        assert rule["labels"]["severity"] in ("warning", "critical"), name
        assert rule["annotations"]["summary"] and rule["annotations"]["action"], name


def test_rules_name_metrics_that_there_are():
    code = "".join(
        path.read_text() for folder in ("parser/docparser", "operations") for path in (ROOT / folder).rglob("*.py")
    )
    for name, rule in ALERTS.items():
        for metric in re.findall(r"docparser_[a-z_]+", rule["expr"]):
            # Counters get `_total` from the library; the names of the replicas' gauges are put together.
            stem = metric.removesuffix("_total")
            assert stem in code or stem.rpartition("_")[0] in code, f"{name} reads {metric}, which nothing writes"


def test_what_the_parser_reads_is_what_the_container_writes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """docparser.models.vlm_probe reads these lines; tests/parser holds the same sample."""
    monkeypatch.setenv("NPU_MISSING", "5")
    monkeypatch.setenv("RUN_DIR", str(tmp_path))
    monkeypatch.setattr(metrics.replicas, "urls", lambda env: ["http://127.0.0.1:1"])
    monkeypatch.setattr(metrics.cgroup, "oom_kills", lambda: 2)
    page = metrics.generate_latest(metrics.REGISTRY).decode()
    sample = re.search(r'PAGE = """(.*?)"""', (ROOT / "tests/parser/test_replicas.py").read_text(), re.DOTALL)
    assert sample
    expected = [line for line in sample[1].splitlines() if line.startswith("#") or "{" not in line]
    assert [line for line in page.splitlines() if line in expected] == expected
    assert 'vlm_replica_up{replica="0"} 0.0' in page


@promtool
def test_promtool_accepts_the_configuration_and_the_rules():
    words = ["promtool", "check", "config", str(RULES.with_name("prometheus.yaml"))]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and f"{len(ALERTS)} rules found" in done.stdout, done.stdout + done.stderr


@promtool
def test_each_alert_fires_only_when_it_should(tmp_path: Path):
    path = tmp_path / "tests.yaml"
    cases = [
        case(name, fires, series)
        for name, both in SERIES.items()
        for fires, series in zip((True, False), both, strict=True)
    ]
    # In a cluster the address of a pod that is gone is asked no more, so there is no series that could be 0.
    cases.append(case("ParserDown", True, {'up{job="other"}': "1x30"}))
    path.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": cases}))
    done = subprocess.run(["promtool", "test", "rules", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def case(name: str, fires: bool, series: dict[str, str]) -> dict:
    """One of promtool's tests: the series, and whether the alert fires after 29 minutes.

    The number of firing alerts is asked for, since annotations with values would have to be repeated here.
    """
    return {
        "name": f"{name}, fires: {fires}",
        "interval": "1m",
        "input_series": [{"series": key, "values": value} for key, value in series.items()],
        "promql_expr_test": [
            {
                "expr": f'count(ALERTS{{alertname="{name}",alertstate="firing"}})',
                "eval_time": "29m",
                "exp_samples": [{"value": 1, "labels": "{}"}] if fires else [],
            }
        ],
    }
