# SPDX-License-Identifier: Apache-2.0
"""What of vLLM's API is open: ``vllm serve --middleware vlm_models.middleware.ChatOnly``.

Chat completions, with the fields that reading documents needs. vLLM 0.11.1 lets requests of other kinds stop
its engine (tried): POST /v1/completions with ``"prompt": [-1]`` reaches the embedding lookup as it is, and
``structured_outputs`` compiles its grammar in the engine core, where one that nests counters never ends well.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

POST_PATHS = frozenset({"/v1/chat/completions"})
FIELDS = frozenset(
    (
        "model messages stream stream_options user request_id max_tokens max_completion_tokens n seed stop "
        "temperature top_p top_k min_p repetition_penalty presence_penalty frequency_penalty logprobs top_logprobs "
        "skip_special_tokens spaces_between_special_tokens return_token_ids return_tokens_as_token_ids "
        "mm_processor_kwargs"
    ).split()
)
MAX_BODY_BYTES = 128 * 1024 * 1024
MAX_CHOICES = 8

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Refusal(Exception):
    """A request that is not passed on; status and what the client is told."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class ChatOnly:
    """ASGI middleware; answers what it refuses in the form of vLLM's own errors."""

    def __init__(self, app: Callable[[Message, Receive, Send], Awaitable[None]]) -> None:
        self.app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD", "OPTIONS"):
            await self.app(scope, receive, send)
            return
        try:
            check_path(scope["method"], scope["path"])
            body = await read_body(receive)
            check_fields(body)
        except Refusal as refusal:
            await answer(refusal, send)
        else:
            await self.app(scope, replay(body, receive), send)


def check_path(method: str, path: str) -> None:
    if path not in POST_PATHS:
        raise Refusal(404, f"{method} {path} is not open on this server; use POST /v1/chat/completions")


async def read_body(receive: Receive) -> bytes:
    """The whole body. Raises Refusal above ``MAX_BODY_BYTES``."""
    parts, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise Refusal(400, "the connection was closed before the body was complete")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        more = message.get("more_body", False)
        if size > MAX_BODY_BYTES:
            raise Refusal(413, f"the body is larger than {MAX_BODY_BYTES} bytes; send fewer or smaller images")
    return b"".join(parts)


def check_fields(body: bytes) -> None:
    """Raise Refusal for fields that are not open. What is no JSON object is left to vLLM to refuse."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return
    if not isinstance(document, dict):
        return
    for field, value in document.items():
        if field not in FIELDS and value is not None:
            raise Refusal(400, f"{field}: is not accepted by this server; known are {', '.join(sorted(FIELDS))}")
    choices = document.get("n")
    if isinstance(choices, int) and choices > MAX_CHOICES:
        raise Refusal(400, f"n: {choices} is more than {MAX_CHOICES}, the most that one request may ask for")


def replay(body: bytes, receive: Receive) -> Receive:
    """A ``receive`` that yields the body that was read, then what comes after it (a disconnect)."""
    pending = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return pending.pop() if pending else await receive()

    return again


async def answer(refusal: Refusal, send: Send) -> None:
    kind = {404: "NotFoundError", 413: "RequestEntityTooLarge"}.get(refusal.status, "BadRequestError")
    error = {"message": str(refusal), "type": kind, "param": None, "code": refusal.status}
    content = json.dumps({"error": error}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
