# SPDX-License-Identifier: Apache-2.0
"""The pipeline's way to the VLM, made tolerant: one block that fails does not take its page with it.

PaddleX's own client (paddlex 3.7.2, ``inference/models/common/genai.py``) waits up to 600 s for each crop, retries
twice with growing pauses, follows proxy variables, and any failed crop cancels all others of the page.
``BlockClient`` has the same interface and takes its place in the recognition model (``pipeline.py``). It can go when
PaddleX reports failed crops one by one.
"""

from __future__ import annotations

import asyncio
import dataclasses
import re
from types import SimpleNamespace
from typing import Any

import httpx
import openai
from paddlex.inference.models.common.genai import run_async

from docparser.errors import VlmUnavailable

# A failed block's text carries the number of its failure through the pipeline; private-use characters, and short
# enough that no post-processing touches it.
FAILURE_MARK = re.compile("\ue000(\\d+)\ue001")
RETRY_PAUSE_S = 0.3
NOT_OURS = (401, 403, 404)  # a key or a model name is wrong: no block will do better


@dataclasses.dataclass(frozen=True)
class BlockFailure:
    """``refused``: the VLM called the request bad; ``failed``: it broke or timed out on it."""

    kind: str
    message: str


class BlockClient:
    """Stands in for paddlex's GenAIClient; used from one page at a time, its calls run on paddlex's event loop."""

    backend = "vllm-server"

    def __init__(self, url: str, model: str, *, concurrency: int, connect_timeout_s: float, timeout_s: float) -> None:
        self._url, self._model = url, model
        self._semaphore = asyncio.Semaphore(concurrency)
        self._client = openai.AsyncOpenAI(
            base_url=url,
            api_key="none",  # vLLM asks for none unless told to
            max_retries=0,
            http_client=httpx.AsyncClient(
                timeout=httpx.Timeout(timeout_s, connect=connect_timeout_s, pool=None),
                # The VLM closes idle connections after 5 s; we do so first.
                limits=httpx.Limits(
                    max_connections=concurrency, max_keepalive_connections=concurrency, keepalive_expiry=3
                ),
                trust_env=False,
            ),
        )
        self.begin_page()

    def begin_page(self) -> None:
        self.failures: list[BlockFailure] = []
        self.answered = 0

    def close(self) -> None:
        run_async(self._client.close(), timeout=5)

    def create_chat_completion(
        self, messages: list[dict], *, return_future: bool = False, timeout: float | None = None, **kwargs: Any
    ):
        """``timeout`` is paddlex's own and is replaced by the operator's."""
        return run_async(self._complete(messages, kwargs), return_future=return_future)

    async def _complete(self, messages: list[dict], kwargs: dict[str, Any]):
        async with self._semaphore:
            for last_try in (False, True):
                try:
                    completion = await self._client.chat.completions.create(
                        model=self._model, messages=messages, **kwargs
                    )
                except openai.APIConnectionError as exc:
                    if isinstance(exc, openai.APITimeoutError) and not isinstance(exc.__cause__, httpx.ConnectTimeout):
                        return self._failed("failed", "the VLM server did not answer in time")
                    if last_try:
                        reason = exc.__cause__ or exc
                        raise VlmUnavailable(f"The VLM server at {self._url} cannot be reached ({reason}).") from exc
                except openai.APIStatusError as exc:
                    if exc.status_code in NOT_OURS:
                        raise VlmUnavailable(
                            f"The VLM server at {self._url} answers {exc.status_code}: {_text(exc)}"
                        ) from exc
                    if exc.status_code < 500 and exc.status_code != 429:
                        return self._failed("refused", _text(exc))
                    if last_try:
                        return self._failed("failed", _text(exc))
                except openai.OpenAIError as exc:  # not JSON, not a completion
                    return self._failed("failed", f"the VLM server's answer is not a completion ({exc})")
                else:
                    self.answered += 1
                    return completion
                await asyncio.sleep(RETRY_PAUSE_S)

    def _failed(self, kind: str, message: str) -> SimpleNamespace:
        """A completion whose text is the mark of a new failure."""
        self.failures.append(BlockFailure(kind, message))
        mark = f"\ue000{len(self.failures) - 1}\ue001"
        return SimpleNamespace(choices=[SimpleNamespace(message=SimpleNamespace(content=mark))])


def _text(exc: openai.APIStatusError) -> str:
    body = exc.body
    message = body.get("message") if isinstance(body, dict) else None
    return str(message or exc.message)[:300]
