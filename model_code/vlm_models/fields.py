# SPDX-License-Identifier: Apache-2.0
"""What a chat request may hold: one table of fields, each with its kind and its bounds.

vLLM coerces before it checks: `"n": "1000"` and `1000.0` both become a thousand answers, `1e999` an infinite
temperature. So each value is looked at as it came, and what it can cost is bounded here. What the table does not name
is refused, because vLLM 0.11.1 lets some fields stop its engine: `structured_outputs` compiles its grammar in the
engine core, where one that nests counters never ends well (tried).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from .parts import media_urls

MAX_CHOICES = 8
MAX_TOP_LOGPROBS = 20  # vLLM's --max-logprobs by default; the self-test asks for as many
# Without the images: 16384 tokens of text, each character of which is written as \uXXXX, are a fifth of it.
MAX_WORDS_BYTES = 512 * 1024
# Commas and brackets: a body of nothing but `[],[],` takes fifty times its size when it is read.
MAX_VALUES = 65536
_MAX_SHOWN = 60
_INT32, _INT64 = 2**31 - 1, 2**63 - 1


class Refusal(Exception):
    """A request that is not passed on; status, what the client is told, and when it may ask again (seconds)."""

    def __init__(self, status: int, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after


class Kind:
    """What a value must be. ``types`` are Python's for it; ``str()`` of a kind says what is expected."""

    types: ClassVar[tuple[type, ...]]

    def check(self, value: Any, where: str) -> None:
        """Raise Refusal, naming ``where``, the value and what was expected."""
        # By the exact type: True is an int to Python.
        if type(value) not in self.types or not self.holds(value):
            raise Refusal(400, f"{where}: {shown(value)} is not accepted; expected {self}")

    def holds(self, value: Any) -> bool:
        """Whether a value of the right type is within the bounds."""
        return True


@dataclass(frozen=True)
class Flag(Kind):
    types = (bool,)

    def __str__(self) -> str:
        return "true or false"


@dataclass(frozen=True)
class Whole(Kind):
    least: int
    most: int
    types = (int,)

    def holds(self, value: int) -> bool:
        return self.least <= value <= self.most

    def __str__(self) -> str:
        return f"a whole number from {self.least} to {self.most}"


@dataclass(frozen=True)
class Number(Kind):
    least: float
    most: float
    types = (int, float)

    def holds(self, value: float) -> bool:
        # False for infinities and NaN too. A conversion to float would raise for whole numbers of 309 digits.
        return self.least <= value <= self.most

    def __str__(self) -> str:
        return f"a number from {self.least:g} to {self.most:g}"


@dataclass(frozen=True)
class Text(Kind):
    """``longest`` in characters; None: bounded with the others of the body, by MAX_WORDS_BYTES or as an image."""

    longest: int | None = None
    types = (str,)

    def holds(self, value: str) -> bool:
        return (self.longest is None or len(value) <= self.longest) and is_unicode(value)

    def __str__(self) -> str:
        return "a text of Unicode characters" + (f", at most {self.longest} of them" if self.longest else "")


@dataclass(frozen=True)
class List(Kind):
    of: Kind
    most: int
    least: int = 0
    types = (list,)

    def check(self, value: Any, where: str) -> None:
        super().check(value, where)
        for index, one in enumerate(value):
            self.of.check(one, f"{where}[{index}]")

    def holds(self, value: list[Any]) -> bool:
        return self.least <= len(value) <= self.most

    def __str__(self) -> str:
        return f"a list of {f'{self.least} to' if self.least else 'at most'} {self.most}"


@dataclass(frozen=True)
class Object(Kind):
    """Null stands for a key that is left out, as clients' libraries write it."""

    keys: Mapping[str, Kind]
    types = (dict,)

    def check(self, value: Any, where: str) -> None:
        super().check(value, where)
        for key, one in value.items():
            if one is None and is_unicode(key):
                continue
            name = f"{where}.{key}" if where else key
            if key not in self.keys:
                raise Refusal(
                    400, f"{ascii(name)[1:-1][:_MAX_SHOWN]}: is not accepted by this server; known are {self.names}"
                )
            self.keys[key].check(one, name)

    @property
    def names(self) -> str:
        return ", ".join(sorted(self.keys))

    def __str__(self) -> str:
        return f"an object with {self.names}"


@dataclass(frozen=True)
class Either(Kind):
    """One of two kinds, told by the value's type."""

    first: Kind
    second: Kind

    def check(self, value: Any, where: str) -> None:
        for kind in (self.first, self.second):
            if type(value) in kind.types:
                return kind.check(value, where)
        raise Refusal(400, f"{where}: {shown(value)} is not accepted; expected {self}")

    def __str__(self) -> str:
        return f"{self.first}, or {self.second}"


IMAGE_URL = Either(Text(), Object({"url": Text(), "detail": Text(16)}))
VIDEO_URL = Either(Text(), Object({"url": Text()}))
PART = Object({"type": Text(32), "text": Text(), "image_url": IMAGE_URL, "video_url": VIDEO_URL, "uuid": Text(128)})
# The chat template knows the roles.
MESSAGE = Object({"role": Text(32), "name": Text(128), "content": Either(Text(), List(Either(Text(), PART), 64))})
PIXELS = Whole(1, _INT64)
REQUEST = Object(
    {
        "model": Text(256),
        "messages": List(MESSAGE, 64, least=1),  # of none, Qwen2-VL's server says "list index out of range"
        "stream": Flag(),
        "stream_options": Object({"include_usage": Flag(), "continuous_usage_stats": Flag()}),
        "user": Text(256),
        "request_id": Text(128),
        # vLLM refuses what is more than the model's length leaves.
        "max_tokens": Whole(1, _INT32),
        "max_completion_tokens": Whole(1, _INT32),
        "n": Whole(1, MAX_CHOICES),
        "seed": Whole(-_INT64 - 1, _INT64),
        # Each is looked for in the answer after every token.
        "stop": Either(Text(256), List(Text(256), 16)),
        "temperature": Number(0, 2),
        "top_p": Number(0, 1),
        "top_k": Whole(-1, _INT32),
        "min_p": Number(0, 1),
        "repetition_penalty": Number(0.1, 10),
        "presence_penalty": Number(-2, 2),
        "frequency_penalty": Number(-2, 2),
        "logprobs": Flag(),
        "top_logprobs": Whole(0, MAX_TOP_LOGPROBS),
        "skip_special_tokens": Flag(),
        "spaces_between_special_tokens": Flag(),
        "return_token_ids": Flag(),
        "return_tokens_as_token_ids": Flag(),
        # What else they must be to each other, and the operator's bound, the image processor knows.
        "mm_processor_kwargs": Object({"min_pixels": PIXELS, "max_pixels": PIXELS}),
    }
)


def read_request(body: bytes) -> dict[str, Any]:
    """The request of a body. Raises Refusal for what is no JSON object, or not as the table says."""
    if (values := sum(map(body.count, (b",", b"[", b"{")))) > MAX_VALUES:
        raise Refusal(400, f"the body has {values} commas and brackets; expected at most {MAX_VALUES}")
    try:
        document = json.loads(body, parse_constant=refuse_constant)
    except RecursionError:
        raise Refusal(400, "the body is nested too deeply; expected a chat request") from None
    except ValueError as error:
        raise Refusal(400, f"the body is no JSON: {shown(str(error))}; expected a chat request") from None
    if not isinstance(document, dict):
        raise Refusal(400, f"the body is {shown(document)}; expected a JSON object with {REQUEST.names}")
    REQUEST.check(document, "")
    words = len(body) - sum(len(url) for _, _, url in media_urls(document))
    if words > MAX_WORDS_BYTES:
        raise Refusal(400, f"the body without its images has {words} bytes; expected at most {MAX_WORDS_BYTES}")
    return document


def refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def is_unicode(text: str) -> bool:
    """Whether a text is one: JSON can write halves of surrogate pairs, which no tokenizer takes."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def shown(value: Any) -> str:
    """A value as messages show it: short, and in ASCII."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, dict)):
        return f"{'a list' if isinstance(value, list) else 'an object'} of {len(value)}"
    text = ascii(value[: _MAX_SHOWN + 1] if isinstance(value, str) else value)
    return text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "..."
