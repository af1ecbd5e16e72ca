# SPDX-License-Identifier: Apache-2.0
"""Which of vLLM's endpoints are open: ``vllm serve --middleware vlm_models.middleware.ChatOnly``.

Raw prompts pass no chat template and no multimodal processor, so nothing of ours could check them, and
vLLM 0.11.1 itself lets one stop the engine: POST /v1/completions with ``"prompt": [-1]`` reaches the
embedding lookup as it is. The parser needs chat completions only.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

POST_PATHS = frozenset({"/v1/chat/completions"})

Message = MutableMapping[str, Any]


class ChatOnly:
    """ASGI middleware that answers every POST but those to ``POST_PATHS`` with status 404."""

    def __init__(self, app: Callable[..., Awaitable[None]]) -> None:
        self.app = app

    async def __call__(
        self,
        scope: Message,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD", "OPTIONS") or scope["path"] in POST_PATHS:
            await self.app(scope, receive, send)
            return
        message = f"{scope['method']} {scope['path']} is not open on this server; use POST /v1/chat/completions"
        error = {"message": message, "type": "NotFoundError", "param": None, "code": 404}
        content = json.dumps({"error": error}).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
        await send({"type": "http.response.start", "status": 404, "headers": headers})
        await send({"type": "http.response.body", "body": content})
