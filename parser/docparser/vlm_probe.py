# SPDX-License-Identifier: Apache-2.0
"""Asks the VLM server whether it answers, and with which weights."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable

import httpx

from docparser.errors import VlmUnavailable
from docparser.settings import Settings
from docparser.vlm_reply import NotACompletion, error_text, from_json
from docparser.weights import Weights, is_demo

REMEMBERED_S = 2.0  # an answer is good for all probes of this time
READS_S = 30.0  # so long does one block that was read prove that the VLM reads
TINY_S = 20.0  # a busy server takes its time
# A white PNG of 28 x 28 pixels: one token of PaddleOCR-VL's vision.
TINY_PNG = "iVBORw0KGgoAAAANSUhEUgAAABwAAAAcAQAAAABaduI5AAAAEUlEQVR42mP4////B4bBQQAAE0xt7R3qn8IAAAAASUVORK5CYII="


class VlmProbe:
    """``last_answer`` tells when the VLM last answered a worker (``time.monotonic``): then no tiny request is needed."""

    def __init__(self, settings: Settings, last_answer: Callable[[], float]) -> None:
        self._model = settings.vlm_model_name
        self._url = httpx.URL(settings.vlm_url)
        self._last_answer = last_answer
        self._last_tiny = float("-inf")
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(settings.vlm_connect_timeout_s), limits=httpx.Limits(max_keepalive_connections=0),
            headers={"Authorization": f"Bearer {settings.vlm_api_key}"} if settings.vlm_api_key else None,
            trust_env=False,
        )  # fmt: skip
        self._lock = asyncio.Lock()
        self._checked = float("-inf")
        self._outcome: Weights | VlmUnavailable = VlmUnavailable("The VLM server was not asked yet.")

    async def close(self) -> None:
        await self._client.aclose()

    @property
    def weights(self) -> Weights | None:
        """Those that the last check found."""
        return self._outcome if isinstance(self._outcome, Weights) else None

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
        if time.monotonic() - max(self._last_answer(), self._last_tiny) > READS_S:
            await self._read_tiny()
        path = served[self._model].get("root")
        return Weights(self._model, path, is_demo(path) if path else None)

    async def _read_tiny(self) -> None:
        """One token for one tiny image: a server may be healthy and list its model, and still read nothing."""
        image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{TINY_PNG}"}}
        body = {
            "model": self._model, "max_completion_tokens": 1, "temperature": 0,
            "messages": [{"role": "user", "content": [image, {"type": "text", "text": "OCR:"}]}],
        }  # fmt: skip
        headers = {"X-Request-Id": f"ready-{uuid.uuid4().hex[:12]}"}
        try:
            answer = await self._client.post(
                f"{self._url}/chat/completions", json=body, headers=headers, timeout=TINY_S
            )
            if answer.status_code != 200:
                raise VlmUnavailable(
                    f"The VLM server at {self._url} refuses a tiny image ({answer.status_code}: "
                    f"{error_text(answer.content)})."
                )
            from_json(answer.content)
        except httpx.HTTPError as exc:
            raise VlmUnavailable(
                f"The VLM server at {self._url} does not read a tiny image ({exc or type(exc).__name__})."
            ) from exc
        except NotACompletion as exc:
            raise VlmUnavailable(
                f"The VLM server at {self._url} answers a tiny image with no completion: {exc}"
            ) from exc
        self._last_tiny = time.monotonic()
