# SPDX-License-Identifier: Apache-2.0
"""Answers of chat completions: in one piece, and as server-sent events (OpenAI API: "The chat completion object", "The
chat completion chunk object")."""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

from docparser.contract.answers import Report
from docparser.contract.chat import (
    ChatCompletion,
    ChatCompletionChunk,
    ChunkChoice,
    ChunkExtras,
    CompletionChoice,
    CompletionHead,
    Delta,
    FinishReason,
    TokenUsage,
)
from docparser.parsing.result import ParseResult

STILL_READING = b": still reading\n\n"  # a comment: proxies keep the connection, and a client that left is noticed
DONE = b"data: [DONE]\n\n"


def event(content: Mapping[str, Any]) -> bytes:
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
        self._head: CompletionHead = {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time()), "model": model}

    def whole(self, text: str, result: ParseResult, report: Report) -> ChatCompletion:
        """``report`` is ``docparser`` of /layout-parsing."""
        choice: CompletionChoice = {
            "index": 0,
            "message": {"role": "assistant", "content": text, "refusal": None},
            "logprobs": None,
            "finish_reason": finish_reason(report),
        }
        return {
            **self._head,
            "object": "chat.completion",
            "choices": [choice],
            "usage": usage(result.tokens),
            "docparser": report,
        }

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

    def end(self, result: ParseResult, report: Report, *, with_usage: bool) -> bytes:
        last = self._chunk({}, finish_reason(report), {"docparser": report})
        if with_usage:
            last += self._chunk(None, more={"usage": usage(result.tokens)})
        return last + DONE

    def _chunk(self, delta: Delta | None, reason: FinishReason | None = None, more: ChunkExtras | None = None) -> bytes:
        choices: list[ChunkChoice] = []
        if delta is not None:
            choices.append({"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason})
        chunk: ChatCompletionChunk = {
            **self._head,
            "object": "chat.completion.chunk",
            "choices": choices,
            **(more or {}),
        }
        return event(chunk)


def finish_reason(report: Report) -> FinishReason:
    """``length`` if the VLM's text of a block was cut at a limit."""
    notes = [note for page in report["pages"] for note in page.get("blocks", ())]
    return "length" if any(note["kind"] == "length" for note in notes) else "stop"


def usage(tokens: tuple[int, int]) -> TokenUsage:
    prompt, completion = tokens
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
