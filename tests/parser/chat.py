# SPDX-License-Identifier: Apache-2.0
"""What tests of the OpenAI API send."""

from __future__ import annotations

from typing import Any

import openai

from tests.support import samples
from tests.support.parser_process import ParserProcess

MODEL = "PaddleOCR-VL-0.9B"
CHAT = "/v1/chat/completions"


def openai_client(service: ParserProcess, key: str) -> openai.OpenAI:
    """Without its retries, and without the proxies that the environment may name."""
    http = openai.DefaultHttpxClient(trust_env=False)
    return openai.OpenAI(base_url=f"{service.url}/v1", api_key=key, max_retries=0, http_client=http, timeout=300)


def image(data: str | None = None) -> dict:
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data or samples.image()}"}}


def file(data: str, kind: str = "application/pdf") -> dict:
    return {"type": "file", "file": {"filename": "a", "file_data": f"data:{kind};base64,{data}"}}


def turn(*parts: dict | str) -> list[Any]:
    content = [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
    return [{"role": "user", "content": content}]
