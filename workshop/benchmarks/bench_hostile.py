# SPDX-License-Identifier: Apache-2.0
"""What hostile clients cost an honest one: its pages per second beside each kind of them over those without, in turns.

    PYTHONPATH=workshop:operations .venvs/parser/bin/python workshop/benchmarks/bench_hostile.py --pairs 5

The service and its simulated VLM run on one core in all rounds. The honest client and the hostile ones run on another,
the hostile ones at the lowest priority, so that their own work counts for nothing. Each client has its own address and
key. What a kind sends is bounded (parser_bench/hostile_traffic.py). Progress goes to stderr.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import hashlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from parser_bench.documents import text_pdf
from parser_bench.hostile_traffic import KINDS
from parser_bench.layout_models import layout_model
from parser_bench.processes import OPENER, ROOT, Server, our_parser, say, simulated_layout, simulated_vlm
from percentiles import percentile

OPTIONS = {"fileType": 0, "visualize": False}
KEYS = {"honest": "honest-key-of-the-benchmark", "hostile": "hostile-key-of-the-benchmark"}
SETTINGS = {
    "PARSER_API_KEYS": ",".join(
        f"sha256:{hashlib.sha256(key.encode()).hexdigest()} name={n}" for n, key in KEYS.items()
    ),
    "PARSER_CALLBACK_HOSTS": "hooks.example.com",
    "PARSER_CALLBACK_SECRETS": "whsec_" + base64.b64encode(bytes(32)).decode(),
    "PARSER_URL_HOSTS": "hooks.example.com",
}
PROBE_S = 0.1
ONSET_S = 4.0
IDLE = 0.1  # of a core: what the service uses when an attack is over
PATIENCE_S = 120.0


@dataclass
class Round:
    """What the honest client saw: its pages per second, and the seconds of each answer to ``/health``."""

    at_once: int
    latencies: list[float] = field(default_factory=list)
    probes: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    wall_s: float = 0.0
    onset_pages_per_second: float = 0.0
    cpu_s: dict[str, float] = field(default_factory=dict)
    statuses: Counter[str] = field(default_factory=Counter)

    @property
    def pages_per_second(self) -> float:
        """By Little's law, so that neither the first nor the last page is counted in part."""
        return self.at_once / statistics.fmean(self.latencies) if self.latencies else 0.0


class Honest:
    """The honest client: pages, some at a time, and beside them a probe."""

    def __init__(self, url: str, at_once: int) -> None:
        self._url, self._at_once = url, at_once
        self._bodies = [
            json.dumps({"file": base64.b64encode(text_pdf(1, seed)).decode(), **OPTIONS}).encode() for seed in range(8)
        ]

    def round(self, seconds: float) -> Round:
        """Pages that begin within ``seconds``."""
        seen, until, over = Round(self._at_once), time.monotonic() + seconds, threading.Event()

        def pages(number: int) -> None:
            while time.monotonic() < until:
                number += 1
                if self._timed(seen, seen.latencies, "/layout-parsing", self._bodies[number % len(self._bodies)]) > 60:
                    return

        def probes() -> None:
            while not over.is_set():
                self._timed(seen, seen.probes, "/health", None)
                over.wait(PROBE_S)

        probing = threading.Thread(target=probes)
        clients = [threading.Thread(target=pages, args=(number,)) for number in range(self._at_once)]
        for thread in (probing, *clients):
            thread.start()
        for thread in clients:
            thread.join()
        over.set()
        probing.join()
        return seen

    def _timed(self, seen: Round, times: list[float], path: str, body: bytes | None) -> float:
        headers = {"Authorization": f"Bearer {KEYS['honest']}", "Content-Type": "application/json"}
        request = urllib.request.Request(self._url + path, body, headers)
        began = time.monotonic()
        try:
            with OPENER.open(request, timeout=PATIENCE_S) as answer:
                answer.read()
            times.append(time.monotonic() - began)
        except urllib.error.HTTPError as error:
            seen.errors[f"{path} {error.code}"] += 1
            error.close()
            time.sleep(PROBE_S)
        except OSError as error:
            seen.errors[f"{path} {type(getattr(error, 'reason', error)).__name__}"] += 1
            time.sleep(PROBE_S)
        return time.monotonic() - began


@contextlib.contextmanager
def attacked(kind: str, url: str, statuses: Counter[str]) -> Iterator[None]:
    """The kind's clients are at work, at the lowest priority; ``statuses`` is filled in at the end."""
    path = os.pathsep.join(str(ROOT / folder) for folder in ("workshop", "operations", "workshop/benchmarks"))
    process = subprocess.Popen(
        [sys.executable, "-m", "parser_bench.hostile_traffic", kind, url, KEYS["hostile"]],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None, "it is a pipe"
    try:
        if process.stdout.readline() != "ready\n":
            raise RuntimeError(f"hostile_traffic {kind!r} did not start: status {process.wait()}")
        yield
        if process.poll() is not None:
            raise RuntimeError(f"hostile_traffic {kind!r} ended by itself: status {process.returncode}")
        process.send_signal(signal.SIGTERM)
        statuses.update(json.loads(process.communicate(timeout=30)[0]))
    finally:
        process.kill()
        process.wait()


def wait_until_idle(server: Server) -> None:
    """What an attack has left behind is over: no quiet round pays for it."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with server.measured() as usage:
            time.sleep(1.0)
        if usage.cpu_s < IDLE:
            return
    say("the service still works on what the attack left")


def pair(kind: str, server: Server, honest: Honest, seconds: float, *, quiet_first: bool) -> tuple[Round, Round]:
    """A quiet round and a hostile one, before which an attack's first seconds are looked at by themselves: in them the
    service finds out which of the documents are slow."""
    rounds: dict[bool, Round] = {}
    for quiet in (quiet_first, not quiet_first):
        wait_until_idle(server)
        statuses: Counter[str] = Counter()
        attack = contextlib.nullcontext() if quiet else attacked(kind, server.url, statuses)
        with attack:
            onset = 0.0 if quiet else honest.round(ONSET_S).pages_per_second
            with server.measured() as usage:
                began = time.monotonic()
                seen = rounds[quiet] = honest.round(seconds)
                seen.wall_s = time.monotonic() - began
        seen.onset_pages_per_second = onset
        seen.cpu_s, seen.statuses = usage.parts, statuses
    return rounds[True], rounds[False]


def row(kind: str, pairs: list[tuple[Round, Round]]) -> dict:
    ratios = [hostile.pages_per_second / quiet.pages_per_second for quiet, hostile in pairs]
    quiets, hostiles = zip(*pairs, strict=True)
    return {
        "kind": kind,
        "ratio": round(statistics.median(ratios), 3),
        "ratios": [round(ratio, 2) for ratio in ratios],
        "onset": round(min(h.onset_pages_per_second / q.pages_per_second for q, h in pairs), 2),
        "quiet_pages_s": round(statistics.median(each.pages_per_second for each in quiets), 2),
        "hostile_pages_s": round(statistics.median(each.pages_per_second for each in hostiles), 2),
        "quiet_health_p95_ms": p95_ms(quiets),
        "hostile_health_p95_ms": p95_ms(hostiles),
        "quiet_cores": cores(quiets),
        "hostile_cores": cores(hostiles),
        "errors": dict(sum((each.errors for each in hostiles), Counter())),
        "quiet_errors": dict(sum((each.errors for each in quiets), Counter())),
        "statuses": dict(sum((each.statuses for each in hostiles), Counter())),
    }


def cores(rounds: tuple[Round, ...]) -> dict[str, float]:
    """How much of its core each kind of the service's processes had, on average."""
    seconds, kinds = sum(each.wall_s for each in rounds), sorted({kind for each in rounds for kind in each.cpu_s})
    return {kind: round(sum(each.cpu_s.get(kind, 0.0) for each in rounds) / seconds, 3) for kind in kinds}


def p95_ms(rounds: tuple[Round, ...]) -> float:
    """Of all probes of these rounds."""
    return round(percentile([seconds for each in rounds for seconds in each.probes], 95) * 1000, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", default=list(KINDS), metavar="KIND", help=f"of {', '.join(KINDS)}")
    parser.add_argument("--pairs", type=int, default=5, help="rounds without and with, for each kind")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each round")
    parser.add_argument("--at-once", type=int, default=8, help="pages of the honest client at a time")
    parser.add_argument("--cores", type=int, nargs=2, default=[1, 0], help="of the service, and of all clients")
    parser.add_argument("--layout", type=layout_model, default="demo", metavar="demo|published|DIR")
    parser.add_argument("--layout-server", action="store_true", help="layout on a simulated die")
    options = parser.parse_args()
    if unknown := set(options.kinds) - set(KINDS):
        parser.error(f"KIND: {', '.join(sorted(unknown))} is unknown; known are {', '.join(KINDS)}")
    os.sched_setaffinity(0, {options.cores[0]})
    rows = []
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        vlm_url, _ = stack.enter_context(simulated_vlm(16, "--hold-jobs"))
        layout_url = stack.enter_context(simulated_layout(options.layout, folder)) if options.layout_server else ""
        server = our_parser(
            folder, vlm_url, options.layout, layout_url=layout_url, small_print="off", settings=SETTINGS
        )
        stack.enter_context(contextlib.closing(server))
        os.sched_setaffinity(0, {options.cores[1]})
        server.wait()
        honest = Honest(server.url, options.at_once)
        honest.round(10.0)  # the first requests are slower
        for kind in options.kinds:
            pairs = [
                pair(kind, server, honest, options.seconds, quiet_first=number % 2 == 0)
                for number in range(options.pairs)
            ]
            rows.append(row(kind, pairs))
            say(json.dumps(rows[-1]))
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
