# SPDX-License-Identifier: Apache-2.0
"""Metrics of callbacks."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

OUTCOMES = ("delivered", "failed", "gone", "expired")


class CallbackMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._attempts = Counter(
            "docparser_callback_attempts",
            "Callbacks sent: delivered, failed (sent again later), gone (410), expired (failed for the last time).",
            ("outcome",),
            registry=registry,
        )
        self.waiting = Gauge(
            "docparser_callbacks_waiting",
            "Callbacks that are not over, of all parsers of the directory.",
            registry=registry,
        )
        for outcome in OUTCOMES:
            self._attempts.labels(outcome)

    def attempt(self, outcome: str) -> None:
        self._attempts.labels(outcome).inc()
