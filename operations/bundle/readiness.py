# SPDX-License-Identifier: Apache-2.0
"""Wait for a service to be ready, and read what the parser's readiness answer and the logs say."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable

from bundle import interrupts
from bundle.progress import Ticker, step
from health_probe import Probe, probe

# A line of vLLM's engine or of a worker of it, which are processes of their own: "(EngineCore_DP0 pid=7) ERROR 01-31
# 12:00:00 [core.py:708] OSError: ...", or the same without the middle.
ENGINE_ERROR = re.compile(
    r"\((?:EngineCore|\w*Worker)\S* pid=\d+\) (?:ERROR .*?\] )?(?P<cause>[\w.]+(?:Error|Exception): .+)"
)
# The line by which a service of ours says why it ends.
LAST_WORDS = re.compile(r"docparser: |vlm_server: |error: ")
LOG_LINES = 400
# vLLM colours the names of its processes also where it writes to a file.
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
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
            interrupts.check()
            look(ticker, result)
            time.sleep(every)
    return result


def weights_in_use(ready: Probe) -> dict[str, object]:
    """Return what the parser's readiness answer says of the served weights; {} for an answer of another form."""
    try:
        return json.loads(ready.detail)["result"]
    except (ValueError, KeyError):
        return {}


def is_broken(result: Probe) -> bool:
    """Whether the parser says that its workers cannot start, so that waiting for it is of no use."""
    try:
        return bool(json.loads(result.detail.partition(": ")[2])["result"]["layout"]["state"] == "broken")
    except (ValueError, KeyError, TypeError):
        return False


def said(detail: str) -> str:
    """Return the parser's own message from the detail of a failed probe, or the whole detail if it holds none."""
    message = ERROR_MESSAGE.search(detail)
    return message[1] if message else detail


def likely_cause(lines: Iterable[str]) -> str:
    """Return the log line that most likely says what went wrong: the first error of vLLM's engine, since what ends
    after it only points there; else a service's own last words (a line that tells of an error as JSON is one too), the
    last line with `error` in it, or the last one.

    At most 300 characters.
    """
    kept = list(filter(None, map(_plain, lines)))
    if found := next(filter(None, map(ENGINE_ERROR.match, kept)), None):
        return found["cause"][:300]
    words = [line for line in kept if LAST_WORDS.match(line)]
    marked = [line for line in kept if "error" in line.lower()]
    return (words or marked or kept or ["no output"])[-1][-300:]


def _plain(line: str) -> str:
    """A log's line without colours; of our services' JSON the message, after "error: " where it tells of one."""
    line = COLOUR.sub("", line).strip()
    try:
        said = json.loads(line)
        return f"error: {said['message']}" if said["level"] in ("error", "critical") else said["message"]
    except (ValueError, KeyError, TypeError):
        return line
