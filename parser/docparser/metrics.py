# SPDX-License-Identifier: Apache-2.0
"""``GET /metrics``: what the service does, for Prometheus (names and units by its conventions)."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from starlette.types import Scope

from docparser import __version__
from docparser.pool import WorkerPool
from docparser.scheduler import PageScheduler

STAGES = ("queue", "read", "layout", "blocks", "vlm", "write")
SECONDS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000)
PATHS = ("/layout-parsing", "/restructure-pages", "/health", "/health/ready", "/metrics")
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    def __init__(self, pool: WorkerPool, scheduler: PageScheduler) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_State(pool, scheduler))
        self._requests = Counter(
            "docparser_requests", "Requests by path and status.", ("path", "code"), registry=self._registry
        )
        self._request_seconds = Histogram(
            "docparser_request_duration_seconds", "From a request's first byte to its answer's last.", ("path",),
            buckets=SECONDS, registry=self._registry,
        )  # fmt: skip
        self._pages = Counter(
            "docparser_pages", "Pages: ok, partial (a block is missing or cut), failed, abandoned (the client left).",
            ("outcome",), registry=self._registry,
        )  # fmt: skip
        self._stage_seconds = Histogram(
            "docparser_page_stage_duration_seconds", "Wall time of a page by stage; vlm overlaps with other pages.",
            ("stage",), buckets=SECONDS, registry=self._registry,
        )  # fmt: skip
        for outcome in ("ok", "partial", "failed", "abandoned"):
            self._pages.labels(outcome)
        for stage in STAGES:
            self._stage_seconds.labels(stage)

    def request(self, scope: Scope, status: int, seconds: float) -> None:
        """``status`` 0: the client left before there was an answer."""
        path = scope["path"] if scope["path"] in PATHS else "other"
        self._requests.labels(path, str(status or 499)).inc()
        self._request_seconds.labels(path).observe(seconds)

    def page(self, outcome: str, seconds: dict[str, float] | None = None) -> None:
        self._pages.labels(outcome).inc()
        for stage, value in (seconds or {}).items():
            self._stage_seconds.labels(stage).observe(value)

    def exposition(self) -> bytes:
        return generate_latest(self._registry)


class _State:
    """What is read where it is kept, at the moment of the scrape."""

    def __init__(self, pool: WorkerPool, scheduler: PageScheduler) -> None:
        self._pool = pool
        self._scheduler = scheduler

    def collect(self) -> Iterator[Metric]:
        pool, scheduler = self._pool, self._scheduler
        states = [worker.vlm for worker in pool.workers if worker.vlm is not None]
        counts = pool.vlm_counts()
        gauges = {
            "docparser_queue_tasks": ("Tasks that no worker has yet.", scheduler.queued),
            "docparser_queue_oldest_seconds": ("How long the oldest of them has waited.", scheduler.oldest_s),
            "docparser_running_tasks": ("Tasks that workers have.", scheduler.given),
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
        for name, (words, value) in totals.items():
            yield CounterMetricFamily(name, words, value)
        blocks = CounterMetricFamily("docparser_blocks", "Blocks read, or not, by outcome.", labels=("outcome",))
        for outcome in ("ok", "refused", "failed", "timeout", "repetition", "length"):
            blocks.add_metric((outcome,), counts[f"blocks_{outcome}"])
        yield blocks
        build = GaugeMetricFamily("docparser_build_info", "Always 1.", labels=("version",))
        build.add_metric((__version__,), 1)
        yield build
