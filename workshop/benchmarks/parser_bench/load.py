# SPDX-License-Identifier: Apache-2.0
"""Clients that each send one document after the other, and what they see."""

from __future__ import annotations

import asyncio
import base64
import statistics
import time
from dataclasses import dataclass, field

import aiohttp

from percentiles import percentile

OPTIONS = {"fileType": 0, "visualize": False, "useDocOrientationClassify": False, "useDocUnwarping": False}


@dataclass
class Seen:
    """``latencies``: seconds of each good answer. ``errors``: how many there were of each kind."""

    wall_s: float = 0.0
    pages: int = 0
    latencies: list[float] = field(default_factory=list)
    errors: dict[str, int] = field(default_factory=dict)

    @property
    def pages_per_second(self) -> float:
        return self.pages / self.wall_s if self.wall_s else 0.0

    def percentile(self, percent: int) -> float:
        """Of the latencies; 0 if there are none."""
        return percentile(self.latencies, percent) if self.latencies else 0.0

    @property
    def mean(self) -> float:
        return statistics.fmean(self.latencies) if self.latencies else 0.0


def run(url: str, documents: list[bytes], clients: int, count: int, timeout_s: float) -> Seen:
    """``count`` requests by ``clients`` clients, in a closed loop; ends when all are answered, or given up after
    ``timeout_s`` seconds, which counts as an error."""
    bodies = [{"file": base64.b64encode(data).decode(), **OPTIONS} for data in documents]
    return asyncio.run(_run(url, bodies, clients, count, timeout_s))


async def _run(url: str, bodies: list[dict], clients: int, count: int, timeout_s: float) -> Seen:
    seen, numbers = Seen(), iter(range(count))
    timeout = aiohttp.ClientTimeout(total=timeout_s)
    async with aiohttp.ClientSession(
        timeout=timeout, trust_env=False, connector=aiohttp.TCPConnector(limit=0)
    ) as session:

        async def client() -> None:
            for number in numbers:
                began = time.monotonic()
                trouble, pages = await _ask(session, url, bodies[number % len(bodies)])
                if trouble:
                    seen.errors[trouble] = seen.errors.get(trouble, 0) + 1
                else:
                    seen.latencies.append(time.monotonic() - began)
                    seen.pages += pages

        began = time.monotonic()
        await asyncio.gather(*(client() for _ in range(clients)))
        seen.wall_s = time.monotonic() - began
    return seen


async def _ask(session: aiohttp.ClientSession, url: str, body: dict) -> tuple[str, int]:
    """What went wrong, "" if nothing did, and the number of pages that came back whole."""
    try:
        async with session.post(f"{url}/layout-parsing", json=body) as response:
            answer = await response.json(content_type=None)
            if response.status != 200:
                return f"{response.status} {str(answer.get('errorMsg'))[:80]}", 0
    except (aiohttp.ClientError, TimeoutError, ValueError) as exc:
        return type(exc).__name__, 0
    result = answer["result"]
    if (result.get("docparser") or {}).get("partial"):
        return "partial", 0
    pages = result["layoutParsingResults"]
    if not all(any(block["block_content"] for block in page["prunedResult"]["parsing_res_list"]) for page in pages):
        return "a page without text", 0
    return "", len(pages)
