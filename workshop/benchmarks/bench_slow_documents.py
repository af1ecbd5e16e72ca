# SPDX-License-Identifier: Apache-2.0
"""What one client's slow documents cost another client: pages per second of the second one, without and with them.

    .venvs/parser/bin/python workshop/benchmarks/bench_slow_documents.py --workers 1 2

The first client sends 20 documents of 2 KB that would be rendered for hours, as requests or as jobs; the second one
sends pages, some at a time. The VLM is simulated and answers at once. Progress goes to stderr.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import json
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

from parser_bench.documents import endless_pdf, text_pdf
from parser_bench.layout_models import layout_model
from parser_bench.processes import OPENER, Server, our_parser, say, simulated_vlm
from parser_bench.simulated_vlm import MODEL

OPTIONS = {"fileType": 0, "visualize": False}


def post(url: str, path: str, body: dict, client: str) -> dict:
    """The answer's JSON, also that of an error."""
    request = urllib.request.Request(
        url + path,
        json.dumps(body).encode(),
        {"Content-Type": "application/json", "Authorization": f"Bearer {client}"},
    )
    try:
        with OPENER.open(request, timeout=3600) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        return json.load(error)


class Bombs:
    """The first client's documents: sent, and answered or not."""

    def __init__(self, url: str, count: int, how: str) -> None:
        self._url, self._how = url, how
        self.answers: list[str] = []
        threads = [threading.Thread(target=self._send, args=(number,), daemon=True) for number in range(count)]
        for thread in threads:
            thread.start()
        if how == "jobs":
            for thread in threads:
                thread.join()

    def _send(self, number: int) -> None:
        file = base64.b64encode(endless_pdf(time.time_ns() + number)).decode()
        with contextlib.suppress(OSError, ValueError):  # the server ended
            if self._how == "jobs":
                post(self._url, "/api/v2/ocr/jobs", {"model": MODEL, "file": file}, "first")
            else:
                answer = post(self._url, "/layout-parsing", {"file": file, **OPTIONS}, "first")
                self.answers.append(f"{answer.get('errorCode')} {answer.get('errorMsg')}")


def pages_per_second(url: str, at_once: int, seconds: float) -> tuple[float, float]:
    """The second client's pages per second, and the longest time of a page, over ``seconds``."""
    began, done, longest = time.monotonic(), [0] * at_once, [0.0] * at_once
    documents = [base64.b64encode(text_pdf(1, seed)).decode() for seed in range(8)]

    def send(number: int) -> None:
        while time.monotonic() - began < seconds:
            start = time.monotonic()
            answer = post(url, "/layout-parsing", {"file": documents[done[number] % 8], **OPTIONS}, "second")
            assert answer["errorCode"] == 0, answer
            done[number] += 1
            longest[number] = max(longest[number], time.monotonic() - start)

    threads = [threading.Thread(target=send, args=(number,)) for number in range(at_once)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(done) / (time.monotonic() - began), max(longest)


def measure(folder: Path, vlm_url: str, workers: int, options: argparse.Namespace) -> list[dict]:
    rows = []
    for how in ("requests", "jobs"):
        place = folder / f"{how}-{workers}"
        place.mkdir()
        with contextlib.closing(our_parser(place, vlm_url, options.layout, workers)) as server:
            server.wait()
            pages_per_second(server.url, options.at_once, 5.0)  # the first requests are slower
            rows.append(_row(server, how, workers, options))
            say(json.dumps(rows[-1]))
    return rows


def _row(server: Server, how: str, workers: int, options: argparse.Namespace) -> dict:
    alone, longest_alone = pages_per_second(server.url, options.at_once, options.seconds)
    bombs = Bombs(server.url, options.bombs, how)
    beside, longest = pages_per_second(server.url, options.at_once, options.seconds)
    return {
        "bombs": how,
        "workers": workers,
        "at_once": options.at_once,
        "alone": round(alone, 2),
        "beside_bombs": round(beside, 2),
        "share": round(beside / alone, 2),
        "longest_alone_s": round(longest_alone, 1),
        "longest_beside_s": round(longest, 1),
        "bombs_answered": len(bombs.answers),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--at-once", type=int, default=2, help="pages of the second client at a time")
    parser.add_argument("--bombs", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("--layout", type=layout_model, default="demo", metavar="demo|published|DIR")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, simulated_vlm(16) as (vlm_url, _):
        rows = [row for workers in options.workers for row in measure(Path(folder), vlm_url, workers, options)]
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
