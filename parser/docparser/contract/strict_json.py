# SPDX-License-Identifier: Apache-2.0
"""Reads JSON of strangers: what RFC 8259 allows, in UTF-8, and only values that everything behind it can carry.

Python's reader also takes NaN and Infinity, numbers of any size, halves of surrogate pairs, UTF-16, and nesting until
its stack is full. Each of these fails somewhere later, where nobody knows any more that the request is to blame.

A long string is found without reading the JSON (``longest``), so that a document in base64 never becomes text in
memory.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, NoReturn, Protocol

MAX_DEPTH = 64  # of nested arrays and objects; a result's own blocks need less than ten
MAX_VALUES = 10_000  # of a body with options and a document; all options together have fewer than a thousand values
INTEGERS = range(-(2**63), 2**64)
SURROGATE = re.compile(r"[\ud800-\udfff]")
ESCAPED_SURROGATE = re.compile(r"\\u[dD][89abAB-Fc-f]")
# Also matches an unterminated string, which keeps the scan linear.
STRING = re.compile(r'"(?:[^"\\]++|\\.?)*+"?', re.DOTALL)
SIGNS = ",[{"  # every value but the outermost follows one of them, or its key does
LONG = 1 << 16  # bytes; a shorter string is left where it is
MOST_SIGNS = 100_000  # brackets and strings that are looked at; JSON of a document in base64 has a hundred
MOST_BACKSLASHES = 64  # in a row
STRUCTURE = re.compile(rb'["\[\]{}]')
CHUNK = 1 << 20  # bytes of one step, during which no other thread runs


class BeyondBounds(ValueError):
    """Arrays and objects are nested deeper than MAX_DEPTH, or there are more values than such a request needs."""


def loads(data: bytes | str, most: int = MAX_VALUES, *, once: bool = False) -> Any:
    """At most ``most`` values, which are counted before any is made: a value takes up to a hundred times the memory of
    its text, and the reader lets no other thread run. ``once``: an object with a member twice is an error; else the
    last one counts.

    Raises json.JSONDecodeError with the reason and, where it is known, the place; BeyondBounds.
    """
    text = _decoded(data) if isinstance(data, bytes) else data
    if not _has_at_most(text, most):
        raise BeyondBounds(f"it has more than {most} values, which is all that such a request may have")
    try:
        value = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_each_once if once else None)
    except json.JSONDecodeError:
        raise
    except RecursionError:
        raise BeyondBounds(f"nested deeper than {MAX_DEPTH} arrays and objects") from None
    except ValueError as exc:  # NaN and the like, or an integer of thousands of digits
        raise json.JSONDecodeError(str(exc), "", 0) from None
    _check(value)
    if ESCAPED_SURROGATE.search(text) or not is_text(text):
        _check_texts(value)
    return value


def is_text(text: str) -> bool:
    """Whether ``text`` can be written as UTF-8: it has no half of a surrogate pair."""
    return text.isascii() or SURROGATE.search(text) is None


def _decoded(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise json.JSONDecodeError(f"not UTF-8 ({exc.reason})", "", exc.start) from None


def _has_at_most(text: str, most: int) -> bool:
    """Whether ``text`` has no more than ``most`` values. Linear in time, with at most about twice ``most`` steps.

    Signs inside strings are no values, but few texts have so many that they must be told apart.
    """
    if sum(map(text.count, SIGNS)) <= most:
        return True
    values, at = 0, 0
    for number, string in enumerate(STRING.finditer(text)):
        values += sum(text.count(sign, at, string.start()) for sign in SIGNS)
        if values > most or number > 2 * most + 1:  # each value has a key and is a string at most
            return False
        at = string.end()
    return values + sum(text.count(sign, at) for sign in SIGNS) <= most


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number in JSON")


def _each_once(members: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(members)
    if len(found) < len(members):
        twice = Counter(name for name, _ in members).most_common(1)[0][0]
        raise json.JSONDecodeError(f"{twice[:80]!r} is there twice in one object; send it once", "", 0)
    return found


def _check(value: Any) -> None:
    """Depth and numbers, level by level: no recursion, however deep the value is."""
    level: list[Any] = [[value]]
    depth = -1
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise BeyondBounds(f"nested deeper than {MAX_DEPTH} arrays and objects")
        deeper: list[Any] = []
        for container in level:
            for child in container.values() if type(container) is dict else container:
                kind = type(child)
                if kind is dict or kind is list:
                    deeper.append(child)
                elif kind is float and not math.isfinite(child):
                    raise json.JSONDecodeError("a number is larger than 1.8e308", "", 0)
                elif kind is int and child not in INTEGERS:
                    raise json.JSONDecodeError("an integer has more than 64 bits", "", 0)
        level = deeper


def _check_texts(value: Any) -> None:
    rest = [value]
    while rest:
        item = rest.pop()
        if isinstance(item, str):
            if not is_text(item):
                raise json.JSONDecodeError("a string has an unpaired surrogate, like \\ud800", "", 0)
        elif isinstance(item, dict):
            rest += item.keys()
            rest += item.values()
        elif isinstance(item, list):
            rest += item


class Buffer(Protocol):
    """Bytes, or a file that is mapped."""

    def find(self, sub: bytes, start: int, end: int = ..., /) -> int: ...
    def __getitem__(self, place: slice, /) -> bytes: ...
    def __len__(self) -> int: ...


class _Unusual(Exception):
    """The text is no JSON, or none that anybody writes around a document. It is read as a whole."""


def longest(data: Buffer) -> tuple[int, int] | None:
    """Begin and end of the content of the longest string, of several the last, wherever it stands: a value, or an entry
    of a list.

    None if there is none beyond LONG, or if nobody would write such JSON around a document. Linear in time.
    """
    at, found, most = 0, None, LONG + 1
    try:
        for _ in range(MOST_SIGNS):
            match = _next_sign(data, at)
            if match is None:
                return found
            at = match.end()
            if match[0] == b'"':
                start, end = at, _end(data, at)
                at = end + 1
                if end - start >= most:
                    found, most = (start, end), end - start
    except _Unusual:
        pass
    return None


def pieces(data: Buffer, start: int, end: int) -> Iterator[bytes]:
    """The content of a string without its escapes, which are ASCII in base64. Raises ValueError."""
    escaped = data.find(b"\\", start, end) >= 0
    while start < end:
        stop = min(start + CHUNK, end)
        piece = data[start:stop]
        if escaped and stop < end and (cut := piece.rfind(b"\\", len(piece) - 6)) > 0:
            stop = start + cut  # an escape has at most six signs; it goes whole into the next piece
            piece = piece[:cut]
        yield json.loads(b'"%s"' % piece, strict=False).encode("ascii") if escaped and b"\\" in piece else piece
        start = stop


def memory_of(text: bytes) -> int:
    """Bytes that the JSON ``text`` takes at most while it is read and used: itself, as text, and as values.

    Measured for CPython 3.11: an empty object has 80 bytes and one with members 208, a list 72 and 8 for each entry, a
    number or a key up to 64. Text beyond ASCII has up to four bytes a character.
    """
    plain = text.isascii() and b"\\u" not in text
    values = 208 * text.count(b"{") + 80 * text.count(b"[") + 64 * (text.count(b",") + text.count(b":"))
    return len(text) * (3 if plain else 9) + values


def _next_sign(data: Buffer, at: int) -> re.Match[bytes] | None:
    while at < len(data):
        # A mapped file has the buffer protocol.
        match = STRUCTURE.search(data, at, at + CHUNK)  # type: ignore[call-overload]
        if match is not None:
            return match
        at += CHUNK
    return None


def _end(data: Buffer, start: int) -> int:
    """Where the string ends whose content begins at ``start``."""
    at = start
    for _ in range(MOST_SIGNS):
        at = data.find(b'"', at)
        if at < 0:
            raise _Unusual
        before = data[max(start, at - MOST_BACKSLASHES) : at]
        backslashes = len(before) - len(before.rstrip(b"\\"))
        if backslashes == MOST_BACKSLASHES:
            raise _Unusual
        if backslashes % 2 == 0:
            return at
        at += 1
    raise _Unusual
