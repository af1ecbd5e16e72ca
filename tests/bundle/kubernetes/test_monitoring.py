# SPDX-License-Identifier: Apache-2.0
"""Metrics in a cluster: the same rules and the same dashboard as on a node, and queries of metrics that there are."""

from __future__ import annotations

import copy
import re
import subprocess
from pathlib import Path

import yaml

from tests.support.kubernetes import one, rendered
from tests.support.paths import ROOT
from tests.support.system_packages import needs

OBJECTS = "cpu, all"
# Of kube-state-metrics, which a node has not.
OF_THE_CLUSTER = "PodsMissing"
promtool = needs("prometheus")


def test_the_rules_are_those_of_a_node_with_actions_for_a_cluster():
    node = yaml.safe_load((ROOT / "config/prometheus/alerts.yaml").read_text())["groups"]
    cluster = copy.deepcopy(one(rendered(OBJECTS), "PrometheusRule", "paddleocr-vl")["spec"]["groups"])
    for groups in (node, cluster):
        assert len(groups) == 1
    cluster[0]["rules"] = [rule for rule in cluster[0]["rules"] if rule["alert"] != OF_THE_CLUSTER]
    actions = [rule["annotations"]["action"] for rule in cluster[0]["rules"]]
    assert actions and not any("docker" in action or "scripts/" in action for action in actions)
    for rules in (node[0]["rules"], cluster[0]["rules"]):
        rules[:] = [
            rule | {"annotations": {name: text for name, text in rule["annotations"].items() if name != "action"}}
            for rule in rules
        ]
    assert cluster == node


@promtool
def test_pods_that_wait_raise_an_alert(tmp_path: Path):
    """A pod without a die has no address, so no page of metrics counts it."""
    rules, tests = tmp_path / "rules.yaml", tmp_path / "tests.yaml"
    rules.write_text(yaml.safe_dump(one(rendered(OBJECTS), "PrometheusRule", "paddleocr-vl")["spec"]))
    series = 'kube_deployment_status_replicas_unavailable{{namespace="{}",deployment="vlm"}}'
    asked = f'count(ALERTS{{alertname="{OF_THE_CLUSTER}",alertstate="firing"}})'
    cases = [
        {
            "interval": "1m",
            "input_series": [{"series": series.format(namespace), "values": f"{waiting}x30"}],
            "promql_expr_test": [{"expr": asked, "eval_time": "29m", "exp_samples": samples}],
        }
        for namespace, waiting, samples in (
            ("paddleocr-vl", 1, [{"value": 1, "labels": "{}"}]),
            ("paddleocr-vl", 0, []),
            ("other", 1, []),
        )
    ]
    tests.write_text(yaml.safe_dump({"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": cases}))
    done = subprocess.run(["promtool", "test", "rules", str(tests)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_dashboard_is_the_nodes():
    found = one(rendered(OBJECTS), "ConfigMap", "grafana-docparser")
    assert found["data"] == {"docparser.json": (ROOT / "config/grafana/docparser.json").read_text()}
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"


def test_the_parser_is_scraped_under_the_rules_name_for_it():
    monitor = one(rendered(OBJECTS), "ServiceMonitor", "parser")["spec"]
    service = one(rendered(OBJECTS), "Service", "parser")
    assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    (endpoint,) = monitor["endpoints"]
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    jobs = {relabeling["replacement"] for relabeling in endpoint["relabelings"] if relabeling["targetLabel"] == "job"}
    named = yaml.safe_load((ROOT / "config/prometheus/prometheus.yaml").read_text())["scrape_configs"]
    assert jobs == {"docparser"} <= {scrape["job_name"] for scrape in named}


def test_scaling_asks_for_metrics_that_the_parser_has():
    code = (ROOT / "parser/docparser/parsing/metrics.py").read_text()
    for trigger in one(rendered(OBJECTS), "ScaledObject", "vlm")["spec"]["triggers"]:
        names = re.findall(r"docparser_[a-z_]+", trigger["metadata"]["query"])
        assert names and all(f'"{name}"' in code for name in names)
