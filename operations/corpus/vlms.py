# SPDX-License-Identifier: Apache-2.0
"""Checks that the VLM servers of a run answer, and that all have the same weights."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from docparser.errors import ParserError, VlmUnavailable
from docparser.models.vlm_probe import VlmProbe
from docparser.settings import Settings
from docparser.weights import Weights
from tool_errors import ServiceError, UsageError

AGAIN_S = 2.0


def answering(
    settings: Settings, urls: Sequence[str], patience_s: float, say: Callable[[str], None]
) -> tuple[str, Weights]:
    """A server that answers, and the weights that all have. Waits until one answers; the others may come later.

    Raises ServiceError if none answers within ``patience_s`` seconds, UsageError if two differ.
    """
    deadline = time.monotonic() + patience_s
    while True:
        found = asyncio.run(_ask(settings, urls))
        there = {url: weights for url, weights in found.items() if isinstance(weights, Weights)}
        away = [str(trouble) for trouble in found.values() if isinstance(trouble, VlmUnavailable)]
        if there:
            break
        if time.monotonic() > deadline:
            raise ServiceError(f"--vlm-url: no VLM server answers. {away[0]}")
        time.sleep(AGAIN_S)
    for words in away:
        say(f"not there yet: {words}")
    (first, weights), *others = there.items()
    for url, other in others:
        if (other.model, other.demo) != (weights.model, weights.demo):
            raise UsageError(
                f"--vlm-url: {first} has {_named(weights)}, but {url} has {_named(other)}; "
                "expected servers with the same weights"
            )
    return first, weights


async def _ask(settings: Settings, urls: Sequence[str]) -> dict[str, Weights | ParserError]:
    return dict(zip(urls, await asyncio.gather(*(_one(settings, url) for url in urls)), strict=True))


async def _one(settings: Settings, url: str) -> Weights | ParserError:
    probe = VlmProbe(settings.model_copy(update={"vlm_url": url}), _never, _never)
    try:
        return await probe.check()
    except VlmUnavailable as exc:
        return exc
    finally:
        await probe.close()


def _never() -> float:
    return float("-inf")


def _named(weights: Weights) -> str:
    return f"{weights.model}{' (demo weights)' if weights.demo else ''}"
