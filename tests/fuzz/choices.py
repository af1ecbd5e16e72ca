# SPDX-License-Identifier: Apache-2.0
"""Values made from bytes: a fuzzer that changes the bytes changes the values, and the same bytes give the same values.

Needs nothing but the standard library, so that an input is replayed where the fuzzer cannot be installed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TypeVar

T = TypeVar("T")

# Characters that parsers stumble over: what ends, escapes, turns or hides something, and what UTF-8 cannot hold.
NASTY = (
    *("\0", "\n", "\r", "\t", "\x1b", "\x7f", "\x85", "\u2028", "\u202e", "\u200b", "\ufeff", "\ufffe", "\uffff"),
    *(
        "\ud800",
        "\udfff",
        "\U0001f600",
        "\u0661",
        "\u00b2",
        "\u0301",
        "\ue000",
        "\ue001",
        "'",
        '"',
        "<",
        ">",
        "&",
        "\\",
    ),
    *("%00", "%2e%2e/", "../", "..\\", "C:", "//", "{}", "%s", "${x}", "-", "-1", "=1+1", "NaN", "1e999"),
)
NUMBERS = (
    *(0, 1, -1, 2, 7, 200, 255, 65_536, 2**31, 2**53, 2**63, -(2**63), 10**30, 10**400),
    *(0.5, -0.0, 1e-300, 1e308, float("inf"), float("-inf"), float("nan")),
)
LONGEST = 40_000  # characters of a text that repeats a piece
DEEPEST = 2_000  # levels of a nested value; Python's own limit of recursion is 1,000


class Choices:
    """Takes decisions from bytes, one after the other; beyond their end every byte is 0."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def more(self) -> bool:
        """Whether bytes are left."""
        return self._at < len(self._data)

    def byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1] if self._at <= len(self._data) else 0

    def below(self, end: int) -> int:
        """An integer from 0 to ``end`` - 1; ``end`` is at most 65,536."""
        return (self.byte() if end <= 256 else self.byte() << 8 | self.byte()) % end

    def one(self, options: Sequence[T]) -> T:
        return options[self.below(len(options))]

    def chance(self, one_in: int) -> bool:
        return self.below(one_in) == 0

    def take(self, longest: int = 256) -> bytes:
        """The next bytes as they are."""
        count = self.below(longest + 1)
        piece = self._data[self._at : self._at + count]
        self._at += count
        return piece

    def rest(self) -> bytes:
        piece = self._data[self._at :]
        self._at = len(self._data)
        return piece

    def text(self, words: Sequence[str] = (), longest: int = LONGEST) -> str:
        """Pieces of ``words``, nasty characters and the bytes themselves. One piece may be repeated, as often as
        ``longest`` allows: what takes quadratic time shows on long texts only."""
        pieces = []
        for _ in range(self.below(24)):
            kind = self.below(8)
            if kind < 4 and words:
                piece = self.one(words)
            elif kind < 6:
                piece = self.take(12).decode("utf-8", "surrogateescape" if kind == 4 else "replace")
            else:
                piece = self.one(NASTY)
            pieces.append(piece)
        text = "".join(pieces)
        if pieces and self.chance(6):
            at, times = self.below(len(pieces)), self.one((2, 10, 100, 1000, LONGEST))
            piece = "".join(pieces[at : at + 1 + self.below(4)])
            text += piece * min(times, max(0, longest - len(text)) // max(1, len(piece)))
        return text[:longest]

    def number(self) -> int | float:
        return self.one(NUMBERS) if self.chance(2) else self.below(65_536) - 300

    def value(self, words: Sequence[str] = (), depth: int = 0) -> Any:
        """Anything that JSON can hold, and what Python's reader of JSON takes besides (NaN, lone surrogates)."""
        kind = self.below(10)
        if kind < 3:
            return self.text(words, longest=400)
        if kind < 5:
            return self.number()
        if kind == 5:
            return self.one((None, True, False))
        if kind == 6 and depth == 0:
            return self._nested()
        if depth > 30:
            return None
        if depth > 3 or kind < 8:
            return [self.value(words, depth + 1) for _ in range(self.below(4))]
        return {self.text(words, longest=60): self.value(words, depth + 1) for _ in range(self.below(4))}

    def _nested(self) -> Any:
        value: Any = self.number()
        wrap = self.below(2)
        for _ in range(self.one((10, 100, 900, DEEPEST))):
            value = [value] if wrap else {"a": value}
        return value


def dumped(value: object) -> bytes:
    """JSON, also of values that are nested deeper than Python's own writer goes."""
    try:
        return json.dumps(value).encode()
    except RecursionError:
        return b"[" * 100_000 + b"]" * 100_000
