# SPDX-License-Identifier: Apache-2.0
"""``GET /metrics``: what the service does, for Prometheus (names and units by its conventions)."""

from __future__ import annotations

import time
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

import cgroup
from bundle_version import VERSION
from docparser.contract.request_parts import PRIORITIES
from docparser.parsing.pool import WorkerPool
from docparser.parsing.scheduler import PageScheduler

STAGES = ("queue", "read", "layout", "blocks", "vlm", "write")
SECONDS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    def __init__(self, pool: WorkerPool, scheduler: PageScheduler) -> None:
        self.registry = CollectorRegistry()  # where others add what they count
        self.registry.register(_State(pool, scheduler))
        self._requests = Counter(
            "docparser_requests", "Requests by path and status.", ("path", "code"), registry=self.registry
        )
        self._request_seconds = Histogram(
            "docparser_request_duration_seconds",
            "From a request's first byte to its answer's last.",
            ("path",),
            buckets=SECONDS,
            registry=self.registry,
        )
        self._pages = Counter(
            "docparser_pages",
            "Pages: ok, partial (a block is missing or cut), failed, abandoned (the client left).",
            ("outcome",),
            registry=self.registry,
        )
        self._stage_seconds = Histogram(
            "docparser_page_stage_duration_seconds",
            "Wall time of a page by stage; vlm overlaps with other pages.",
            ("stage",),
            buckets=SECONDS,
            registry=self.registry,
        )
        self._wait_seconds = Histogram(
            "docparser_page_wait_seconds",
            "How long a page that was read waited for a worker: since its job was submitted, or its request's document "
            "was open.",
            ("priority",),
            buckets=SECONDS,
            registry=self.registry,
        )
        for priority in PRIORITIES:
            self._wait_seconds.labels(priority)
        for outcome in ("ok", "partial", "failed", "abandoned"):
            self._pages.labels(outcome)
        for stage in STAGES:
            self._stage_seconds.labels(stage)

    def request(self, path: str, status: int, seconds: float) -> None:
        """Count a request; ``path`` is a route's, ``status`` 0 if the client left before there was an answer."""
        self._requests.labels(path, str(status or 499)).inc()
        self._request_seconds.labels(path).observe(seconds)

    def page(self, outcome: str, seconds: dict[str, float] | None = None) -> None:
        self._pages.labels(outcome).inc()
        for stage, value in (seconds or {}).items():
            self._stage_seconds.labels(stage).observe(value)

    def waited(self, seconds: float, *, bulk: bool) -> None:
        self._wait_seconds.labels(PRIORITIES[bulk]).observe(seconds)

    def exposition(self) -> bytes:
        """The page."""
        return generate_latest(self.registry)


class _State:
    """Values that are read from pool and scheduler at each scrape."""

    def __init__(self, pool: WorkerPool, scheduler: PageScheduler) -> None:
        self._pool = pool
        self._scheduler = scheduler
        self._began = time.time()

    def collect(self) -> Iterator[Metric]:
        pool, scheduler = self._pool, self._scheduler
        states = [worker.servers for worker in pool.workers if worker.servers is not None]
        counts = pool.vlm_counts()
        gauges = {
            "docparser_start_time_seconds": ("When this service started, in Unix time.", self._began),
            "docparser_queue_tasks": ("Tasks that no worker has yet.", scheduler.queued),
            "docparser_queue_oldest_seconds": ("Waiting time of the oldest of them.", scheduler.oldest_s),
            "docparser_slow_documents": ("Documents that take long to read, at work.", scheduler.slow),
            "docparser_slow_documents_waiting": ("Documents that take long to read, put back.", scheduler.parked),
            "docparser_running_tasks": ("Tasks that workers have.", scheduler.assigned),
            "docparser_workers": ("Worker processes that are wanted.", len(pool.workers)),
            "docparser_workers_ready": ("Worker processes with their models loaded.", pool.ready),
            "docparser_vlm_calls_in_flight": ("Crops that are with the VLM.", sum(s.in_flight for s in states)),
            "docparser_vlm_calls_waiting": ("Crops that wait for a turn.", sum(s.waiting for s in states)),
            "docparser_vlm_calls_limit": ("Crops that may be with the VLM at once.", sum(s.limit for s in states)),
        }
        totals = {
            "docparser_worker_restarts": ("Worker processes that ended and were replaced.", pool.restarts),
            "docparser_page_retries": ("Pages begun again because their worker ended.", scheduler.page_retries),
            "docparser_vlm_calls": ("Requests to the VLM, retries included.", counts["calls"]),
            "docparser_vlm_retries": ("Requests to the VLM that were sent again.", counts["retries"]),
            "docparser_repetition_retries": (
                "Blocks asked for again with other sampling, because the text repeated itself.",
                counts["repetition_retries"],
            ),
        }
        for name, (words, value) in gauges.items():
            yield GaugeMetricFamily(name, words, value)
        if (kills := cgroup.oom_kills()) is not None:
            words = "Processes of the parser that ended because its memory limit was reached."
            totals["docparser_oom_kills"] = (words, kills)
        for name, (words, value) in totals.items():
            yield CounterMetricFamily(name, words, value)
        engines = GaugeMetricFamily(
            "docparser_layout_workers", "Ready workers by the engine of their layout model.", labels=("engine",)
        )
        for engine in ("openvino", "paddle"):
            engines.add_metric((engine,), pool.layout_engines.get(engine, 0))
        yield engines
        pages = CounterMetricFamily(
            "docparser_layout_pages", "Pages by the place where their layout was found.", labels=("place",)
        )
        for place, name in (("server", "layout_served"), ("cpu", "layout_on_cpu")):
            pages.add_metric((place,), counts[name])
        yield pages
        yield GaugeMetricFamily(
            "docparser_layout_server_away",
            "1 while the layout server (LAYOUT_URL) does not answer a worker.",
            bool(pool.layout_away),
        )
        blocks = CounterMetricFamily("docparser_blocks", "Blocks read, or not, by outcome.", labels=("outcome",))
        for outcome in ("ok", "refused", "failed", "timeout", "repetition", "length"):
            blocks.add_metric((outcome,), counts[f"blocks_{outcome}"])
        yield blocks
        build = GaugeMetricFamily("docparser_build_info", "Always 1.", labels=("version",))
        build.add_metric((VERSION,), 1)
        yield build
