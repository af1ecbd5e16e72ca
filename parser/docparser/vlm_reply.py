# SPDX-License-Identifier: Apache-2.0
"""Reading a chat completion: server-sent events as they arrive, or one JSON object."""

from __future__ import annotations

import json
from typing import Any


class NotACompletion(ValueError):
    """The server answered 200 with something else."""


class Stream:
    """Collects the events of a streamed completion (the OpenAI API's ``chat.completion.chunk``)."""

    def __init__(self) -> None:
        self._rest = b""
        self.text = ""
        self.finish_reason: str | None = None
        self.done = False

    def feed(self, data: bytes) -> None:
        """Raises NotACompletion for what is no event stream, and for an error that the server reports in it."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > 1 << 20:
            raise NotACompletion("a line of its event stream has no end")
        for line in lines:
            line = line.strip()
            if not line or line.startswith(b":"):
                continue
            field, _, value = line.partition(b":")
            if field == b"data":
                self._event(value.strip())
            elif field not in (b"event", b"id", b"retry"):
                raise NotACompletion(f"its event stream holds {line[:80]!r}")

    def _event(self, value: bytes) -> None:
        if value == b"[DONE]":
            self.done = True
            return
        try:
            event = json.loads(value)
            if "error" in event:
                raise NotACompletion(f"it reports {str(event['error'])[:200]}")
            for choice in event["choices"]:
                self.text += choice["delta"].get("content") or ""
                self.finish_reason = choice.get("finish_reason") or self.finish_reason
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            raise (
                exc if isinstance(exc, NotACompletion) else NotACompletion(f"an event of it is {value[:80]!r}")
            ) from exc

    @property
    def complete(self) -> bool:
        return self.done or self.finish_reason is not None


def from_json(body: bytes) -> tuple[str, str | None]:
    """Text and finish_reason of a completion that came in one piece. Raises NotACompletion."""
    try:
        choice = json.loads(body)["choices"][0]
        content = choice["message"]["content"]
        if not isinstance(content, str | None):
            raise TypeError
        return content or "", choice.get("finish_reason")
    except (ValueError, KeyError, TypeError, IndexError) as exc:
        raise NotACompletion(f"it is {body[:80]!r}") from exc


def error_text(body: bytes) -> str:
    """The words of an error answer: vLLM's ``{"error": {"message"}}``, or ``{"message"}``, or what there is."""
    try:
        data: Any = json.loads(body)
        data = data.get("error", data)
        return str(data["message"] if isinstance(data, dict) else data)[:300]
    except (ValueError, KeyError, AttributeError):
        return body[:200].decode("utf-8", "replace").strip() or "no reason given"
