# SPDX-License-Identifier: Apache-2.0
"""Answers of chat completions: in one piece, and as server-sent events (OpenAI API: "The chat completion object", "The
chat completion chunk object")."""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

from docparser.parsing.result import ParseResult

STILL_READING = b": still reading\n\n"  # a comment: proxies keep the connection, and a client that left is noticed
DONE = b"data: [DONE]\n\n"


def event(content: dict[str, Any]) -> bytes:
    return (
        b"data: " + json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n\n"
    )


def blocks(text: str) -> Iterator[str]:
    """``text`` in pieces, each with the blank lines before it: PaddleX writes one between two blocks."""
    start = 0
    for gap in re.finditer(r"\n{2,}", text):
        if gap.start() > start:
            yield text[start : gap.start()]
            start = gap.start()
    if text:
        yield text[start:]


class Completion:
    """One answer of ``model``; all its chunks have one id."""

    def __init__(self, model: str) -> None:
        self._head = {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time()), "model": model}

    def whole(self, text: str, result: ParseResult, report: dict[str, Any]) -> dict[str, Any]:
        """``report`` is ``docparser`` of /layout-parsing."""
        message = {"role": "assistant", "content": text, "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish_reason(report)}
        rest = {"choices": [choice], "usage": usage(result.tokens), "docparser": report}
        return {**self._head, "object": "chat.completion", **rest}

    def begin(self) -> bytes:
        return self._chunk({"role": "assistant", "content": ""})

    async def texts(self, first: str, others: AsyncIterator[str]) -> AsyncIterator[bytes]:
        """A chunk for each block; a comment where ``others`` has no text yet."""
        for piece in blocks(first):
            yield self._chunk({"content": piece})
        async for text in others:
            if not text:
                yield STILL_READING
            for piece in blocks(text):
                yield self._chunk({"content": piece})

    def end(self, result: ParseResult, report: dict[str, Any], *, with_usage: bool) -> bytes:
        last = self._chunk({}, finish_reason(report), docparser=report)
        if with_usage:
            last += self._chunk(None, usage=usage(result.tokens))
        return last + DONE

    def _chunk(self, delta: dict[str, Any] | None, reason: str | None = None, **more: Any) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        choices = [] if delta is None else [choice]
        return event({**self._head, "object": "chat.completion.chunk", "choices": choices, **more})


def finish_reason(report: dict[str, Any]) -> str:
    """``length`` if the VLM's text of a block was cut at a limit."""
    notes = [note for page in report["pages"] for note in page.get("blocks", ())]
    return "length" if any(note["kind"] == "length" for note in notes) else "stop"


def usage(tokens: tuple[int, int]) -> dict[str, int]:
    prompt, completion = tokens
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
