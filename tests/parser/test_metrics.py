# SPDX-License-Identifier: Apache-2.0
"""The metrics that Prometheus reads; the dashboard uses no others."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from docparser.models.vlm_probe import ReplicaCount, Replicas
from docparser.parsing.metrics import Metrics
from docparser.parsing.pool import WorkerPool
from docparser.parsing.scheduler import PageScheduler
from docparser.settings import Settings
from tests.support import samples
from tests.support.wait import wait_for

DASHBOARD = Path(__file__).resolve().parents[2] / "config" / "grafana" / "docparser.json"


def exposition() -> str:
    settings = Settings()
    pool = WorkerPool(settings)
    metrics = Metrics(pool, PageScheduler(settings, pool))
    metrics.request("/layout-parsing", 200, 1.0)
    replicas = ReplicaCount(settings)
    replicas.found = Replicas(15, 16, 0)
    metrics.registry.register(replicas)
    return metrics.exposition().decode()


def names(text: str) -> set[str]:
    return {sample.name for family in text_string_to_metric_families(text) for sample in family.samples}


def test_the_dashboard_asks_for_metrics_that_exist():
    panels = json.loads(DASHBOARD.read_text())["panels"]
    queries = " ".join(target["expr"] for panel in panels for target in panel.get("targets", ()))
    asked = set(re.findall(r"docparser_\w+", queries))
    assert len(asked) > 10
    assert asked <= names(exposition())


@pytest.mark.parametrize(("kills", "shown"), [(3, True), (None, False)])
def test_what_the_kernel_ended_is_counted_where_it_says_so(
    monkeypatch: pytest.MonkeyPatch, kills: int | None, shown: bool
):
    monkeypatch.setattr("cgroup.oom_kills", lambda: kills)
    assert ("docparser_oom_kills_total 3.0" in exposition()) is shown


def test_names_follow_the_conventions():
    for family in text_string_to_metric_families(exposition()):
        assert family.name.startswith("docparser_") and family.documentation
        if family.type == "counter":
            assert all(s.name.endswith(("_total", "_created")) for s in family.samples)
        if family.type == "histogram":
            assert family.name.endswith("_seconds")


def test_pages_and_calls_are_counted(service, vlm):
    refused, cut = (f'docparser_blocks_total{{outcome="{outcome}"}}' for outcome in ("refused", "length"))
    # A worker reports its blocks a moment after their pages, all at once: this one's report has those of other tests.
    before, vlm.finish_reason = service.metrics().get(cut, 0), "length"
    service.page(samples.image(size=(400, 60)), useLayoutDetection=False)
    wait_for(lambda: service.metrics().get(cut, 0) > before)
    vlm.finish_reason = "stop"
    counted = service.metrics()
    service.page(samples.image())
    vlm.answer = lambda request, number: (400, "no")
    assert service.parse(samples.image()).status_code == 422
    wait_for(lambda: service.metrics().get(refused, 0) - counted.get(refused, 0) == 7)
    values = service.metrics()
    more = {name: value - counted.get(name, 0) for name, value in values.items()}
    assert more['docparser_blocks_total{outcome="ok"}'] == 7
    assert more['docparser_pages_total{outcome="ok"}'] == 1
    assert more['docparser_requests_total{code="200",path="/layout-parsing"}'] == 1
    assert more['docparser_page_stage_duration_seconds_count{stage="layout"}'] == 2
    assert values["docparser_workers_ready"] == 1 and values["docparser_queue_tasks"] == 0
