# SPDX-License-Identifier: Apache-2.0
"""Reads a chat completion, from server-sent events as they arrive or from one JSON object."""

from __future__ import annotations

import contextlib
import json
import math
import re
from html.parser import HTMLParser
from typing import Any, NamedTuple

# vLLM's fields: the sampled token's own log-probability, and no other token's.
ASKED = {"logprobs": True, "top_logprobs": 0}
LEAST, ROUNDING = -10_000.0, 1e-3  # vLLM writes -9999 for none; log-softmax in single precision may end above 0
# What no page prints and what other formats cannot hold (XML 1.0, section 2.2): control characters, noncharacters, and
# halves of surrogate pairs, which JSON can escape and UTF-8 cannot write.
UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


class TokenProbabilities:
    """Collects them, from events or from a completion in one piece."""

    def __init__(self) -> None:
        self._logs: list[float] = []
        self._understood = True

    def add(self, choice: dict[str, Any]) -> None:
        """Take what ``choice`` of a completion or of an event says. One thing that is no log-probability makes all of
        them worthless; it is no error, because the text is there without it."""
        try:
            entries = (choice.get("logprobs") or {}).get("content") or ()
            logs = [entry["logprob"] for entry in entries]
            if not all(type(log) in (float, int) and LEAST <= log <= ROUNDING for log in logs):
                raise TypeError
        except (AttributeError, KeyError, TypeError):
            self._understood = False
        else:
            self._logs += logs

    @property
    def confidence(self) -> float | None:
        """From 0 to 1; None where the server gave none that can be used."""
        if not self._logs or not self._understood:
            return None
        return confidence_of(self._logs)


def confidence_of(logs: list[float]) -> float:
    """The geometric mean of the tokens' probabilities; ``logs`` are natural logarithms, at least one."""
    return min(1.0, math.exp(sum(logs) / len(logs)))


# Reasons by which vLLM ends a request before it is finished, as when it is told to end (vllm/v1/engine, FinishReason).
BROKEN_OFF = ("abort", "error")


class NotACompletion(ValueError):
    """The server answered 200 with something else."""


class Stream:
    """Collects the events of a streamed completion (the OpenAI API's ``chat.completion.chunk``)."""

    def __init__(self) -> None:
        self._rest = b""
        self.text = ""
        self.finish_reason: str | None = None
        self.done = False
        self.probabilities = TokenProbabilities()
        self._pieces = 0
        self._counted: tuple[int, int] | None = None

    @property
    def tokens(self) -> tuple[int, int]:
        """Of the prompt and of the text, as the server counted them last. One that never says it is taken to send a
        token in each event."""
        return self._counted or (0, self._pieces)

    def feed(self, data: bytes) -> None:
        """Raises NotACompletion if the data is no event stream, or if the server reports an error in it."""
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
            self._counted = counted(event) or self._counted
            for choice in event["choices"]:
                piece = printable(choice["delta"].get("content") or "")
                self.text += piece
                self._pieces += bool(piece)
                self.probabilities.add(choice)
                self.finish_reason = reason_of(choice) or self.finish_reason
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as exc:
            raise (
                exc if isinstance(exc, NotACompletion) else NotACompletion(f"an event of it is {value[:80]!r}")
            ) from exc

    @property
    def complete(self) -> bool:
        return (self.done or self.finish_reason is not None) and self.finish_reason not in BROKEN_OFF


class Completion(NamedTuple):
    """``tokens``: of the prompt and of the text. ``confidence``: from 0 to 1, or None where the server does not say."""

    text: str
    finish_reason: str | None
    tokens: tuple[int, int]
    confidence: float | None


def from_json(body: bytes) -> Completion:
    """One that came in one piece. Raises NotACompletion."""
    probabilities = TokenProbabilities()
    try:
        answer = json.loads(body)
        choice = answer["choices"][0]
        text, reason = printable(choice["message"]["content"] or ""), reason_of(choice)
        probabilities.add(choice)
        return Completion(text, reason, counted(answer) or (0, 0), probabilities.confidence)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as exc:
        raise NotACompletion(f"it is {body[:80]!r}") from exc


def counted(answer: dict[str, Any]) -> tuple[int, int] | None:
    """What ``usage`` says, or None where there is none that can be used."""
    usage = answer.get("usage")
    if not isinstance(usage, dict):
        return None
    prompt, text = usage.get("prompt_tokens"), usage.get("completion_tokens")
    return (prompt, text) if type(prompt) is int and type(text) is int and min(prompt, text) >= 0 else None


def printable(text: str) -> str:
    """``text`` with U+FFFD in place of characters that no document holds. Raises TypeError for what is no text."""
    return UNPRINTABLE.sub("\ufffd", text)


def reason_of(choice: dict[str, Any]) -> str | None:
    """Raises TypeError for a finish_reason that is neither a text nor null."""
    reason = choice.get("finish_reason")
    if not isinstance(reason, str | None):
        raise TypeError
    return reason


def error_text(body: bytes) -> str:
    """The message of an error answer: vLLM's ``{"error": {"message"}}``, or ``{"message"}``, or the words of the body
    without its markup, as balancers write it. At most 300 characters on one line."""
    try:
        data: Any = json.loads(body)
        data = data.get("error", data)
        return _one_line(str(data["message"] if isinstance(data, dict) else data), 300)
    except (ValueError, KeyError, AttributeError, RecursionError):
        words = _Words()
        # html.parser asserts what it expects of declarations, and `<![{` is none.
        with contextlib.suppress(AssertionError):
            words.feed(body[:4000].decode("utf-8", "replace"))
        return _one_line(" ".join(words.found), 200) or "no reason given"


class _Words(HTMLParser):
    """The text of a page, without what only a browser reads."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._skipping = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._skipping += tag in ("style", "script")

    def handle_endtag(self, tag: str) -> None:
        self._skipping -= self._skipping > 0 and tag in ("style", "script")

    def handle_data(self, data: str) -> None:
        if not self._skipping:
            self.found.append(data)


def _one_line(text: str, longest: int) -> str:
    return " ".join(text.split())[:longest]
