# SPDX-License-Identifier: Apache-2.0
"""Wait for a service to be ready, and read what the parser's readiness answer and the logs say."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable

from bundle.progress import Ticker, step
from health_probe import Probe, probe

ERROR_MESSAGE = re.compile(r'"errorMsg": ?"([^"]+)')


def wait(url: str, what: str, look: Callable[[Ticker, Probe], None], every: float = 0.5) -> Probe:
    """Probe `url` until it is healthy, with progress lines that say that `what` is awaited; returns the healthy probe.

    `look` is called after each failed probe. It may set the ticker's detail, and raises to give up. `every` is the
    pause between two probes in seconds.
    """
    result = probe(url)
    if result.healthy:
        return result
    with step(f"waiting for {what}") as ticker:
        while not (result := probe(url)).healthy:
            look(ticker, result)
            time.sleep(every)
    return result


def weights_in_use(ready: Probe) -> dict[str, object]:
    """Return what the parser's readiness answer says of the served weights; {} for an answer of another form."""
    try:
        return json.loads(ready.detail)["result"]
    except (ValueError, KeyError):
        return {}


def said(detail: str) -> str:
    """Return the parser's own message from the detail of a failed probe, or the whole detail if it holds none."""
    message = ERROR_MESSAGE.search(detail)
    return message[1] if message else detail


def likely_cause(lines: Iterable[str]) -> str:
    """Return the log line that most likely says what went wrong: the last one with `error` in it, else the last one.

    At most its last 300 characters.
    """
    kept = [line.strip() for line in lines if line.strip()]
    marked = [line for line in kept if "error" in line.lower()]
    return (marked or kept or ["no output"])[-1][-300:]
