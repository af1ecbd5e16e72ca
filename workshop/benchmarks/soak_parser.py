# SPDX-License-Identifier: Apache-2.0
"""Send thousands of pages through the parser and compare its memory, descriptors and connections before and after.

    .venvs/parser/bin/python workshop/benchmarks/soak_parser.py --pages 3000 --minutes 60 --json

For use on demand, not in CI. It ends after so many pages or minutes, whichever comes first. The VLM is simulated
(parser_bench/simulated_vlm.py). The documents have one to eight pages, a few are damaged, and some clients leave early.
Exit status 1 if a good document was not answered, or if memory grew by more than `--growth-mib`.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import json
import random
import sys
import tempfile
import time
from pathlib import Path

import aiohttp

from parser_bench.documents import text_pdf
from parser_bench.layout_models import LAYOUT
from parser_bench.processes import Server, our_parser, say, simulated_vlm

CLIENTS = 8
LOOK_EVERY = 250  # pages
SETTLE_S = 10  # connections are kept for some seconds


def documents() -> list[tuple[bytes, int]]:
    """Return files with their numbers of pages; 0 marks a damaged one."""
    good = [(text_pdf(pages, seed), pages) for seed, pages in enumerate((1, 1, 2, 3, 8))]
    return [*good, (good[0][0][:300], 0), (b"no document at all", 0)]


async def work(url: str, pages: int, chance: random.Random, deadline: float = float("inf")) -> dict[str, int]:
    """Send documents until ``pages`` pages have come back, or until ``deadline`` (``time.monotonic``)."""
    files = [(base64.b64encode(data).decode(), count) for data, count in documents()]
    tally = {"pages": 0, "documents": 0, "refused": 0, "left": 0, "wrong": 0}
    timeout = aiohttp.ClientTimeout(total=900)

    async def client(session: aiohttp.ClientSession) -> None:
        while tally["pages"] < pages and time.monotonic() < deadline:
            file, count = chance.choice(files)
            body = {"file": file, "visualize": chance.random() < 0.2}
            if chance.random() < 0.03:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.5), session.post(f"{url}/layout-parsing", json=body) as response:
                        await response.read()
                tally["left"] += 1
                continue
            async with session.post(f"{url}/layout-parsing", json=body) as response:
                answer = await response.json()
            if count and response.status == 200 and len(answer["result"]["layoutParsingResults"]) == count:
                tally["pages"] += count
                tally["documents"] += 1
            elif not count and response.status == 422:
                tally["refused"] += 1
            else:
                tally["wrong"] += 1
                say(f"wrong: {count} pages, {response.status} {str(answer)[:200]}")

    async with aiohttp.ClientSession(timeout=timeout, trust_env=False) as session:
        await asyncio.gather(*(client(session) for _ in range(CLIENTS)))
    return tally


def soak(server: Server, pages: int, warm_up: int, minutes: float) -> dict:
    chance = random.Random(7)
    asyncio.run(work(server.url, warm_up, chance))
    time.sleep(SETTLE_S)
    begin, began = server.state(), time.monotonic()
    totals: dict[str, int] = {}
    course: list[dict[str, int]] = []
    say(f"after {warm_up} pages: {begin}")
    deadline = began + 60 * minutes
    while totals.get("pages", 0) < pages and time.monotonic() < deadline:
        left = pages - totals.get("pages", 0)
        tally = asyncio.run(work(server.url, min(LOOK_EVERY, left), chance, deadline))
        totals = {key: totals.get(key, 0) + value for key, value in tally.items()}
        course.append({"pages": totals["pages"], **server.state()})
        say(f"{course[-1]}")
    seconds = time.monotonic() - began
    time.sleep(SETTLE_S)
    return {"begin": begin, "end": server.state(), "course": course, "totals": totals, "seconds": round(seconds)}


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=3000)
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--warm-up", type=int, default=200, help="pages before the first look")
    parser.add_argument("--growth-mib", type=int, default=200)
    parser.add_argument("--dies", type=int, default=4)
    parser.add_argument("--workers", type=int, help="default: as the parser chooses")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="soak-parser-") as name, simulated_vlm(options.dies) as (vlm_url, _):
        starting = our_parser(Path(name), vlm_url, LAYOUT, options.workers)
        with contextlib.closing(starting) as server:
            found = soak(server.wait(), options.pages, options.warm_up, options.minutes)
    print(json.dumps(found, indent=None if options.json else 1))
    grown = found["end"]["mib"] - found["begin"]["mib"]
    return 1 if found["totals"]["wrong"] or grown > options.growth_mib else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
