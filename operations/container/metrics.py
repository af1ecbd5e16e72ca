# SPDX-License-Identifier: Apache-2.0
"""One page of Prometheus metrics for all replicas: every sample gets a `replica` label; vlm_replica_up tells which
replicas answer. If VLM_PODS names pods, the page only has the counts that the parser asks for."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

import cgroup
import declared_settings
from container import replicas
from health_probe import OPENER

TIMEOUT_SECONDS = 5


def fetch(url: str) -> list[Metric] | None:
    """The metric families of a replica's own page; None if there is no page, or only a part of one."""
    try:
        with OPENER.open(f"{url}/metrics", timeout=TIMEOUT_SECONDS) as response:
            return parsed(response.read().decode())
    except (OSError, HTTPException):
        return None
    except ValueError as error:
        print(f"{url}/metrics is no page of metrics: {error}", file=sys.stderr, flush=True)
        return None


def parsed(page: str) -> list[Metric]:
    """The metric families of a page. Raises ValueError."""
    try:
        return list(text_string_to_metric_families(page))
    except IndexError as error:  # the library's own, for a page that breaks off in a comment
        raise ValueError(f"a line breaks off ({error})") from error


def merge(pages: Mapping[str, list[Metric] | None]) -> list[Metric]:
    """Families by replica -> families of all replicas, each once, its samples with the label `replica`."""
    up = GaugeMetricFamily("vlm_replica_up", "Whether the replica answers.", labels=["replica"])
    merged: dict[tuple[str, str], Metric] = {}
    for name, page in pages.items():
        up.add_metric([name], page is not None)
        for family in page or ():
            whole = merged.setdefault(
                (family.name, family.type), Metric(family.name, family.documentation, family.type)
            )
            for sample in family.samples:
                labels = {**sample.labels, "replica": name}
                whole.samples.append(Sample(sample.name, labels, sample.value, sample.timestamp))
    return [up, *merged.values()]


class Replicas:
    """A collector. Each reading asks all replicas that should serve for their pages, at the same time."""

    def collect(self) -> Iterator[Metric]:
        addresses = {
            str(index): url for index, url in enumerate(replicas.urls(os.environ)) if replicas.serves(os.environ, index)
        }
        with ThreadPoolExecutor(len(addresses)) as threads:
            pages = dict(zip(addresses, threads.map(fetch, addresses.values())))
        missing = [die for die in (os.environ.get("NPU_MISSING") or "").split(",") if die]
        yield GaugeMetricFamily("vlm_dies_missing", "Dies of NPU_IDS that are not there.", len(missing))
        if (kills := cgroup.oom_kills()) is not None:
            yield oom_kills(kills)
        yield from merge(pages)


def pod_addresses(name: str) -> list[str]:
    """A name's IPv4 addresses, in a fixed order; none without a pod or a name server."""
    try:
        found = socket.getaddrinfo(name, None, socket.AF_INET, socket.SOCK_STREAM)
    except OSError:
        return []
    return sorted({str(address[0]) for *_, address in found})


class Pods:
    """A collector for pods of the VLM (deploy/kubernetes): how many replicas they have together, and how many answer.

    Prometheus asks the pods themselves for the engines' metrics. A pod that does not answer, because it loads for
    instance, counts as one replica.
    """

    def collect(self) -> Iterator[Metric]:
        port = declared_settings.port(os.environ, "VLM_PORT")
        urls = [f"http://{address}:{port}" for address in pod_addresses(os.environ["VLM_PODS"])]
        with ThreadPoolExecutor(max(1, len(urls))) as threads:
            pages = list(threads.map(fetch, urls))
        states = [value for page in pages for value in (values(page, "vlm_replica_up") if page else [0.0])]
        up = GaugeMetricFamily("vlm_replica_up", "Whether the replica answers.", labels=["replica"])
        for index, state in enumerate(states):
            up.add_metric([str(index)], state)
        missing = sum(value for page in pages for value in values(page or [], "vlm_dies_missing"))
        yield GaugeMetricFamily("vlm_dies_missing", "Dies of NPU_IDS that are not there.", missing)
        yield oom_kills(sum(value for page in pages for value in values(page or [], "vlm_oom_kills")))
        yield up


def oom_kills(count: float) -> Metric:
    return CounterMetricFamily("vlm_oom_kills", "Processes that ended because the memory limit was reached.", count)


def values(page: list[Metric], name: str) -> list[float]:
    """The values of one family of a page."""
    return [sample.value for family in page if family.name == name for sample in family.samples]


REGISTRY = CollectorRegistry()
REGISTRY.register(Pods() if os.environ.get("VLM_PODS") else Replicas())


class Handler(BaseHTTPRequestHandler):
    """GET /metrics, in the plain text format only.

    The library's own server would offer OpenMetrics too, where the replicas' `..._created` gauges clash with the
    counters whose names they begin with.
    """

    def do_GET(self) -> None:
        body = generate_latest(REGISTRY)
        self.send_response(200)
        self.send_header("Content-Type", CONTENT_TYPE_PLAIN_0_0_4)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing: a line for each scrape would fill the log."""


if __name__ == "__main__":
    # The first process of a container, such as a balancer's pod, gets only the signals that it handles.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    ThreadingHTTPServer(("127.0.0.1", int(os.environ["METRICS_PORT"])), Handler).serve_forever()
