# SPDX-License-Identifier: Apache-2.0
"""Asks the VLM server whether it answers, and with which weights."""

from __future__ import annotations

import asyncio
import time

import httpx

from docparser.errors import VlmUnavailable
from docparser.settings import Settings
from docparser.weights import Weights, is_demo

REMEMBERED_S = 2.0  # an answer is good for all probes of this time


class VlmProbe:
    def __init__(self, settings: Settings) -> None:
        self._model = settings.vlm_model_name
        self._url = httpx.URL(settings.vlm_url)
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(settings.vlm_connect_timeout_s), limits=httpx.Limits(max_keepalive_connections=0),
            trust_env=False,
        )  # fmt: skip
        self._lock = asyncio.Lock()
        self._checked = float("-inf")
        self._outcome: Weights | VlmUnavailable = VlmUnavailable("The VLM server was not asked yet.")

    async def close(self) -> None:
        await self._client.aclose()

    async def check(self) -> Weights:
        """The weights that the server has loaded. Raises VlmUnavailable."""
        async with self._lock:
            if time.monotonic() - self._checked > REMEMBERED_S:
                try:
                    self._outcome = await self._ask()
                except VlmUnavailable as exc:
                    self._outcome = exc
                self._checked = time.monotonic()
        if isinstance(self._outcome, VlmUnavailable):
            raise VlmUnavailable(*self._outcome.args)
        return self._outcome

    async def _ask(self) -> Weights:
        """vLLM's /health fails when its engine is dead; /v1/models names what it serves, and from where."""
        try:
            health = await self._client.get(self._url.copy_with(path="/health"))
            if health.status_code >= 500:
                raise VlmUnavailable(
                    f"The VLM server at {self._url} is not healthy (/health answers {health.status_code})."
                )
            answer = await self._client.get(f"{self._url}/models")
            answer.raise_for_status()
            served = {model["id"]: model for model in answer.json()["data"]}
        except (httpx.HTTPError, ValueError, KeyError, TypeError) as exc:
            raise VlmUnavailable(
                f"The VLM server at {self._url} cannot be reached ({exc or type(exc).__name__})."
            ) from exc
        if self._model not in served:
            raise VlmUnavailable(
                f"The VLM server at {self._url} serves {', '.join(served) or 'nothing'}, not {self._model}; "
                "set VLM_MODEL_NAME to what it serves."
            )
        path = served[self._model].get("root")
        return Weights(self._model, path, is_demo(path) if path else None)
