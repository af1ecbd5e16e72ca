# SPDX-License-Identifier: Apache-2.0
"""Load: one page again and again from as many clients as keep every replica busy."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass

from bundle import parser_client
from bundle.acceptance.node import Node
from bundle.acceptance.pages import DATA
from bundle.acceptance.steps import FAIL, PASS, SKIP, Outcome
from percentiles import percentile
from tool_errors import ToolError

PAGE = DATA / "report.png"
SECONDS = 600
CLIENTS_PER_REPLICA = 2
# A service that refuses everything would otherwise be asked thousands of times.
MOST_FAILURES = 20


@dataclass(frozen=True)
class ParsedPage:
    """One page: seconds since the load began, seconds that it took, and what went wrong."""

    began: float
    seconds: float
    error: str


def drive(url: str, clients: int, seconds: float) -> tuple[list[ParsedPage], float]:
    """All calls of all clients, at least one of each, and how long it took until the last had its answer."""
    calls: list[ParsedPage] = []
    began, enough = time.monotonic(), threading.Event()

    def client() -> None:
        while True:
            start, error = time.monotonic(), ""
            try:
                result = parser_client.request(url, PAGE, 1, SECONDS)
                if not result["layoutParsingResults"][0]["markdown"]["text"].strip():
                    error = "no text"
            except (ToolError, LookupError, TypeError) as problem:
                error = str(problem) or type(problem).__name__
            calls.append(ParsedPage(round(start - began, 3), round(time.monotonic() - start, 3), error))
            if time.monotonic() - began >= seconds or sum(bool(call.error) for call in list(calls)) >= MOST_FAILURES:
                enough.set()
            if enough.is_set():
                return

    with ThreadPoolExecutor(clients) as threads:
        for running in [threads.submit(client) for _ in range(clients)]:
            running.result()
    return calls, time.monotonic() - began


def load(node: Node) -> Outcome:
    if not node.options.minutes:
        return Outcome(SKIP, "--skip-load")
    if not node.replicas:
        return Outcome(FAIL, "no replica answers")
    clients = CLIENTS_PER_REPLICA * node.replicas
    node.commands.append(f"{clients} clients: POST {node.parser_url}/layout-parsing, tests/data/{PAGE.name}")
    calls, took = drive(node.parser_url, clients, 60 * node.options.minutes)
    node.keep("calls.json", json.dumps([asdict(call) for call in calls]))
    failed = [call for call in calls if call.error]
    times = [call.seconds for call in calls if not call.error]
    if not times:
        return Outcome(
            FAIL, f"no page of {len(calls)} was parsed: {failed[0].error if failed else 'none was asked for'}"
        )
    said = (
        f"{len(times)} pages from {clients} clients in {took:.0f} s: {len(times) / took:.2f} pages/s, "
        f"p50 {percentile(times, 50):.1f} s, p95 {percentile(times, 95):.1f} s, {len(failed)} failed"
    )
    return Outcome(FAIL, f"{said}: {failed[0].error}") if failed else Outcome(PASS, said)
