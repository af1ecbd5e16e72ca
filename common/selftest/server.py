# SPDX-License-Identifier: Apache-2.0
"""A client of the VLM server: greedy answers with the log-probabilities of the most probable tokens."""

from __future__ import annotations

import base64
import http.client
import json
import os
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from health_probe import OPENER
from served_weights.question import Question
from tool_errors import ServiceError, UsageError

TOP = 20  # the most that vLLM gives by default (--max-logprobs)
TIMEOUT_S = 600
# The most probable tokens, regardless of the defaults in models.yaml.
GREEDY = {"temperature": 0, "repetition_penalty": 1.0}
WITH_TOKENS = {
    "logprobs": True,
    "top_logprobs": TOP,
    "return_token_ids": True,
    "return_tokens_as_token_ids": True,
}
# The parser tries a block whose text ran into a loop once more with these sampling parameters of vLLM, which make the
# same words less likely.
OTHER_SAMPLING = {"temperature": 0.3, "top_p": 0.95, "repetition_penalty": 1.15}


@dataclass(frozen=True)
class Answer:
    """``prompt_ids`` and ``tokens`` are token ids; ``most_probable[i]`` maps token id to log-probability (nats) where
    ``tokens[i]`` was chosen."""

    prompt_ids: list[int]
    tokens: list[int]
    most_probable: list[dict[int, float]]
    text: str


class Server:
    """An OpenAI-compatible vLLM server. ``url`` is its API root, with or without ``/v1``; ``key`` is its API key
    (default: VLM_API_KEY of the environment).

    Methods raise ServiceError where the server cannot be reached or refuses.
    """

    def __init__(self, url: str, key: str | None = None) -> None:
        if not url.startswith(("http://", "https://")):
            raise UsageError(f"{url}: expected the API root of a VLM server, like http://127.0.0.1:8000")
        self.url = url.rstrip("/").removesuffix("/v1") + "/v1"
        self._key = key or os.environ.get("VLM_API_KEY")
        entry = self._call("/models")["data"][0]
        self.name, self.root = entry["id"], str(entry.get("root", ""))

    def ask(self, images: Sequence[bytes], question: Question, max_new_tokens: int) -> Answer:
        """The greedy answer to PNG images followed by the question's words."""
        answer = self._chat(images, question, max_new_tokens, GREEDY | WITH_TOKENS)
        choice = answer["choices"][0]
        words = choice["message"]["content"] or ""
        most_probable = [
            {token_id(entry["token"]): entry["logprob"] for entry in position["top_logprobs"]}
            for position in choice["logprobs"]["content"]
        ]
        return Answer(answer["prompt_token_ids"], choice["token_ids"], most_probable, words)

    def read(self, image: bytes, question: Question, max_new_tokens: int) -> tuple[str, int]:
        """The greedy answer to a PNG image without probabilities, which cost time: its text, and how many tokens."""
        answer = self._chat([image], question, max_new_tokens, GREEDY)
        return answer["choices"][0]["message"]["content"] or "", int(answer["usage"]["completion_tokens"])

    def sample(self, image: bytes, question: Question) -> None:
        """One request as the parser sends for a block that ran into a loop: its temperature, top_p and penalty need
        operators of the die that no greedy answer needs. The sampled text proves nothing."""
        self._chat([image], question, 8, OTHER_SAMPLING)

    def _chat(
        self, images: Sequence[bytes], question: Question, max_new_tokens: int, how: dict[str, Any]
    ) -> dict[str, Any]:
        urls = [f"data:image/png;base64,{base64.b64encode(image).decode()}" for image in images]
        parts = [
            *({"type": "image_url", "image_url": {"url": url}} for url in urls),
            {"type": "text", "text": question.prompt},
        ]
        body = {
            "model": self.name,
            "messages": [{"role": "user", "content": parts}],
            "max_tokens": max_new_tokens,
            "mm_processor_kwargs": {"min_pixels": question.min_pixels, "max_pixels": question.max_pixels},
        }
        return self._call("/chat/completions", body | how)

    def _call(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        headers = {"Content-Type": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self.url + path, data, headers)
        try:
            with OPENER.open(request, timeout=TIMEOUT_S) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            words = error.read(2000).decode("utf-8", "replace")
            raise ServiceError(f"{self.url}{path}: HTTP {error.code}: {words}") from error
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise ServiceError(f"{self.url}: cannot be reached ({reason}); is the VLM server running?") from error


def token_id(token: str) -> int:
    """vLLM writes ``token_id:42`` when asked for token ids. Raises ServiceError for a server that does not."""
    name, _, number = token.rpartition(":")
    if name != "token_id" or not number.isdecimal():
        raise ServiceError(
            f"the server names tokens as text ({token!r}), not by number; it must accept return_tokens_as_token_ids"
        )
    return int(number)
