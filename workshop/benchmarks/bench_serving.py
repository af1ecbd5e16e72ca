#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure a running VLM server: requests per second, time to first token and latency at several concurrencies.

    python3.11 workshop/benchmarks/bench_serving.py [--url http://127.0.0.1:8000] [--concurrency 1 4 16 64]
                           [--max-tokens 64] [--json]

It needs nothing but Python's standard library. Each request is one crop of the page that bench_model.py
uses, drawn with strokes, and asks for greedy decoding. To serve the published shapes without their weights, run
`python -m model_bench.checkpoint --out DIR/PaddleOCR-VL` and start a server with MODELS_DIR=DIR and
`-- --load-format dummy`.
If the server was started by `python -m model_bench.serve --stages FOLDER`, then --stages FOLDER here says where its
time went.
"""

from __future__ import annotations

import argparse
import base64
import http.client
import json
import math
import sys
import threading
import time
import urllib.parse
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model_bench.crops import MAX_PIXELS, MIN_PIXELS, PAGE
from model_bench.drawing import png
from model_bench.stages import totals


@dataclass(frozen=True)
class Answer:
    """One request: seconds to the first token and to the end, tokens of prompt and answer."""

    first: float
    whole: float
    prompt_tokens: int
    tokens: int


def body(model: str, number: int, max_tokens: int) -> bytes:
    """Return the body of request number ``number``: crops in the page's order, over and over."""
    width, height = PAGE[number % len(PAGE)]
    url = "data:image/png;base64," + base64.b64encode(png(width, height, number)).decode()
    content = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "OCR:"}]
    return json.dumps(
        {
            "model": model,
            "messages": [{"role": "user", "content": content}],
            "temperature": 0,
            "max_tokens": max_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
            "mm_processor_kwargs": {"min_pixels": MIN_PIXELS, "max_pixels": MAX_PIXELS},
        }
    ).encode()


def connect(url: urllib.parse.SplitResult, timeout: float) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(url.hostname or "", url.port or 80, timeout=timeout)


def served_model(url: urllib.parse.SplitResult) -> str:
    """Return the name of the first model that the server lists."""
    connection = connect(url, 30)
    connection.request("GET", "/v1/models")
    response = connection.getresponse()
    document = json.loads(response.read())
    if response.status != 200:
        raise RuntimeError(f"GET /v1/models: status {response.status}: {document}")
    return document["data"][0]["id"]


def ask(url: urllib.parse.SplitResult, document: bytes, timeout: float) -> Answer:
    """Send one request and read its stream. Raises RuntimeError for anything but a whole answer."""
    began, first, usage = time.perf_counter(), None, None
    connection = connect(url, timeout)
    try:
        connection.request("POST", "/v1/chat/completions", document, {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            raise RuntimeError(f"status {response.status}: {response.read(500)!r}")
        for line in response:
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            if "error" in event:
                raise RuntimeError(f"the stream ended with {event['error']}")
            # The first event only names the role.
            if first is None and event["choices"] and event["choices"][0]["delta"].get("content"):
                first = time.perf_counter() - began
            usage = event.get("usage") or usage
    finally:
        connection.close()
    whole = time.perf_counter() - began
    if usage is None:
        raise RuntimeError("the stream ended without usage")
    return Answer(whole if first is None else first, whole, usage["prompt_tokens"], usage["completion_tokens"])


def run_level(
    url: urllib.parse.SplitResult, documents: Iterable[bytes], concurrency: int, timeout: float
) -> dict[str, Any]:
    """Send all documents by ``concurrency`` clients, each with one request at a time; returns the level's figures."""
    waiting, answers, failures = iter(list(documents)), [], []
    lock = threading.Lock()

    def client() -> None:
        while True:
            with lock:
                document = next(waiting, None)
            if document is None:
                return
            try:
                answer = ask(url, document, timeout)
            except (OSError, RuntimeError, http.client.HTTPException) as error:
                with lock:
                    failures.append(str(error))
            else:
                with lock:
                    answers.append(answer)

    began = time.perf_counter()
    threads = [threading.Thread(target=client) for _ in range(concurrency)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return summary(concurrency, answers, failures, time.perf_counter() - began)


def percentiles(values: list[float]) -> dict[str, float]:
    """Return the percentiles 50, 90 and 99 by nearest rank."""
    ordered = sorted(values)
    return {f"p{part}": round(ordered[max(0, math.ceil(part / 100 * len(ordered)) - 1)], 3) for part in (50, 90, 99)}


def summary(concurrency: int, answers: list[Answer], failures: list[str], seconds: float) -> dict[str, Any]:
    """Return the figures of one level."""
    level: dict[str, Any] = {
        "concurrency": concurrency,
        "requests": len(answers),
        "failed": len(failures),
        "seconds": round(seconds, 2),
    }
    if failures:
        level["first_failure"] = failures[0]
    if answers:
        level |= {
            "requests_per_second": round(len(answers) / seconds, 3),
            "prompt_tokens_per_second": round(sum(one.prompt_tokens for one in answers) / seconds, 1),
            "tokens_per_second": round(sum(one.tokens for one in answers) / seconds, 1),
            "first_token_s": percentiles([one.first for one in answers]),
            "latency_s": percentiles([one.whole for one in answers]),
        }
    return level


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 4, 16, 64])
    parser.add_argument("--requests", type=int, help="for each level (default: twice its concurrency, at least 8)")
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--timeout", type=float, default=600, help="seconds that a request may be silent")
    parser.add_argument(
        "--stages", type=Path, help="folder in which model_bench.serve counts the seconds of each stage"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    options = parser.parse_args(words)
    if (
        min(options.concurrency) < 1
        or (options.requests is not None and options.requests < 1)
        or options.max_tokens < 1
    ):
        parser.error("--concurrency, --requests and --max-tokens are 1 or more")
    return options


def main(words: list[str]) -> int:
    options = parse(words)
    url = urllib.parse.urlsplit(options.url)
    try:
        model = served_model(url)
        # Warm-up: the first requests are slower, since some kernels are made at their first use.
        for number in range(2):
            ask(url, body(model, number, options.max_tokens), options.timeout)
    except (OSError, RuntimeError, ValueError, LookupError, http.client.HTTPException) as error:
        print(f"error: {options.url} does not serve a model: {error}", file=sys.stderr)
        return 1
    levels = []
    for concurrency in options.concurrency:
        count = options.requests or max(8, 2 * concurrency)
        documents = [body(model, number, options.max_tokens) for number in range(count)]
        before = totals(options.stages) if options.stages else {}
        level = run_level(url, documents, concurrency, options.timeout)
        if options.stages:
            level["stages_s"] = {name: round(end - before[name], 2) for name, end in totals(options.stages).items()}
        levels.append(level)
        if not options.json:
            print(json.dumps(levels[-1]), flush=True)
    if options.json:
        print(json.dumps({"url": options.url, "model": model, "max_tokens": options.max_tokens, "levels": levels}))
    return 1 if any(level["failed"] for level in levels) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
