# SPDX-License-Identifier: Apache-2.0
"""Metrics by the name of a client's key. The label has the names of known keys only, so strangers make no series."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter

MOST_NAMES = 500  # clients beyond these share one series
ANONYMOUS = "anonymous"  # no key was needed, or none was accepted
OTHERS = "others"


class ClientMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._names: set[str] = {ANONYMOUS}
        self._requests = Counter(
            "docparser_client_requests", "Requests by client and status.", ("client", "code"), registry=registry
        )
        self._used = Counter(
            "docparser_client_used",
            "What clients used: pages of opened documents, bytes of requests, jobs.",
            ("client", "resource"),
            registry=registry,
        )
        self._refused = Counter(
            "docparser_client_quota_refusals", "Refusals by quota.", ("client", "quota"), registry=registry
        )
        self._denied = Counter(
            "docparser_refused_requests", "Requests refused by who sent them.", ("reason",), registry=registry
        )
        for reason in ("host", "origin", "key_missing", "key_unknown", "key_expired"):
            self._denied.labels(reason)

    def request(self, name: str, status: int) -> None:
        self._requests.labels(self._bounded(name), str(status or 499)).inc()

    def used(self, name: str, resource: str, amount: int) -> None:
        if amount > 0:
            self._used.labels(self._bounded(name), resource).inc(amount)

    def refused(self, name: str, quota: str) -> None:
        self._refused.labels(self._bounded(name), quota).inc()

    def denied(self, reason: str) -> None:
        self._denied.labels(reason).inc()

    def _bounded(self, name: str) -> str:
        name = name or ANONYMOUS
        if name not in self._names and len(self._names) >= MOST_NAMES:
            return OTHERS
        self._names.add(name)
        return name
