#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure what log-probabilities cost a running VLM server: the same crops with and without, in turns.

    python3.11 workshop/benchmarks/bench_confidence.py --pid PID [--url http://127.0.0.1:8000] [--rounds 5]
                           [--concurrency 16] [--requests 32] [--max-tokens 64]

It asks as the parser does with PARSER_CONFIDENCE (parser/docparser/vlm/reply.py). PID is the server's first
process; the processor time of it and of all its descendants counts beside the clock, because on busy cores the clock
says little. Each round has a run of either kind, the other one first every second time. Prints JSON: the ratio with to
without of each round, and the medians. It needs nothing but Python's standard library.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import urllib.parse
from pathlib import Path
from typing import Any

from bench_serving import ask, body, run_level, served_model

TICKS = os.sysconf("SC_CLK_TCK")
PARENT, TIMES = 1, slice(11, 15)  # fields of /proc/PID/stat behind the name: user, system, and ended children's


def family(pid: int) -> dict[int, float]:
    """The processor time in seconds of a process and its descendants. Raises ValueError if there is no such process."""
    stats = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rsplit(")", 1)[1].split()
        except (OSError, IndexError):
            continue  # it has ended
        stats[int(path.parent.name)] = int(fields[PARENT]), sum(map(int, fields[TIMES])) / TICKS
    if pid not in stats:
        raise ValueError(f"--pid {pid}: there is no such process; expected that of the VLM server")
    members, seconds = [pid], {}
    for member in members:
        seconds[member] = stats[member][1]
        members += [child for child, (parent, _) in stats.items() if parent == member]
    return seconds


def documents(model: str, count: int, max_tokens: int, *, asked: bool) -> list[bytes]:
    plain = [body(model, number, max_tokens) for number in range(count)]
    return (
        [json.dumps({**json.loads(one), "logprobs": True, "top_logprobs": 0}).encode() for one in plain]
        if asked
        else plain
    )


def measure(options: argparse.Namespace, url: urllib.parse.SplitResult, crops: list[bytes]) -> dict[str, float]:
    """Seconds of one run by the clock and of the processor. Raises RuntimeError where a request failed."""
    before = sum(family(options.pid).values())
    level = run_level(url, crops, options.concurrency, options.timeout)
    if level["failed"]:
        raise RuntimeError(f"{level['failed']} requests failed: {level['first_failure']}")
    return {"seconds": level["seconds"], "processor": round(sum(family(options.pid).values()) - before, 2)}


def summary(rounds: list[dict[str, dict[str, float]]]) -> dict[str, Any]:
    """``rounds``: figures ``without`` and ``with``; the ratios of each round and their medians. A run too short to be
    measured counts as a hundredth of a second."""
    ratios = {
        kind: [round(max(one["with"][kind], 0.01) / max(one["without"][kind], 0.01), 4) for one in rounds]
        for kind in ("seconds", "processor")
    }
    return {
        "rounds": rounds,
        "ratios": ratios,
        "median": {kind: statistics.median(all) for kind, all in ratios.items()},
    }


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--pid", type=int, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--requests", type=int, default=32)
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--timeout", type=float, default=3600, help="seconds that a request may be silent")
    options = parser.parse_args(words)
    if min(options.rounds, options.concurrency, options.requests, options.max_tokens) < 1:
        parser.error("--rounds, --concurrency, --requests and --max-tokens are 1 or more")
    url = urllib.parse.urlsplit(options.url)
    try:
        family(options.pid)
        model = served_model(url)
        crops = {
            kind: documents(model, options.requests, options.max_tokens, asked=kind == "with")
            for kind in ("without", "with")
        }
        for kind in crops:  # the first requests are slower
            ask(url, crops[kind][0], options.timeout)
        rounds = []
        for number in range(options.rounds):
            kinds = ("without", "with") if number % 2 == 0 else ("with", "without")
            rounds.append({kind: measure(options, url, crops[kind]) for kind in kinds})
            print(json.dumps(rounds[-1]), file=sys.stderr, flush=True)
    except (OSError, RuntimeError, ValueError, LookupError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(json.dumps(summary(rounds), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
