# SPDX-License-Identifier: Apache-2.0
"""Finds a long string in JSON without reading the JSON, so that a document in base64 never becomes text in memory."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Protocol

LONG = 1 << 16  # bytes; a shorter string is left where it is
MOST_SIGNS = 100_000  # brackets and strings that are looked at; JSON of a document in base64 has a hundred
MOST_BACKSLASHES = 64  # in a row
STRUCTURE = re.compile(rb'["\[\]{}]')
COLON = re.compile(rb"[ \t\r\n]*:[ \t\r\n]*")
CHUNK = 1 << 20


class Buffer(Protocol):
    """Bytes, or a file that is mapped."""

    def find(self, sub: bytes, start: int, end: int = ..., /) -> int: ...
    def __getitem__(self, place: slice, /) -> bytes: ...
    def __len__(self) -> int: ...


class _Unusual(Exception):
    """The JSON is none, or one that nobody writes around a document: it is read as a whole."""


def find(data: Buffer, name: str) -> tuple[int, int] | None:
    """Begin and end of the content of the long string that is member ``name`` of the object ``data``.

    None if there is no such member, if it is not long, or if it stands behind MOST_SIGNS others. Linear in time.
    Raises ValueError if it is there twice.
    """
    found: list[tuple[int, int]] = []
    try:
        for key, start, end in _members(data):
            if end - start > LONG and _is(data, key, name):
                found.append((start, end))
    except _Unusual:
        return None
    if len(found) > 1:
        raise ValueError(f"{name}: the body has it twice; send it once")
    return found[0] if found else None


def last(data: Buffer) -> tuple[int, int] | None:
    """Begin and end of the content of the last long string, wherever it stands: a value, or an entry of a list.

    None if there is none, or in JSON that nobody writes around a document. Linear in time.
    """
    at, found = 0, None
    try:
        for _ in range(MOST_SIGNS):
            match = STRUCTURE.search(data, at)  # type: ignore[call-overload]  # a mapped file has the buffer protocol
            if match is None:
                return found
            at = match.end()
            if match[0] == b'"':
                start, end = at, _end(data, at)
                at = end + 1
                if end - start > LONG:
                    found = start, end
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


def memory(text: bytes) -> int:
    """Bytes that the JSON ``text`` takes at most while it is read and used: itself, as text, and as values.

    Measured for CPython 3.11: an empty object has 80 bytes and one with members 208, a list 72 and 8 for each entry, a
    number or a key up to 64. Text beyond ASCII has up to four bytes a character.
    """
    plain = text.isascii() and b"\\u" not in text
    values = 208 * text.count(b"{") + 80 * text.count(b"[") + 64 * (text.count(b",") + text.count(b":"))
    return len(text) * (3 if plain else 9) + values


def _members(data: Buffer) -> Iterator[tuple[tuple[int, int], int, int]]:
    """Members of the outermost object whose values are strings: the key's place, and the value's."""
    depth, at = 0, 0
    key: tuple[int, int] | None = None  # the string before a colon
    for _ in range(MOST_SIGNS):
        match = STRUCTURE.search(data, at)  # type: ignore[call-overload]  # a mapped file has the buffer protocol
        if match is None:
            return
        sign, at = match[0], match.end()
        if sign in b"[{":
            depth, key = depth + 1, None
        elif sign in b"]}":
            depth, key = depth - 1, None
        else:
            start, end = at, _end(data, at)
            at = end + 1
            # As above: a mapped file has the buffer protocol.
            colon = COLON.match(data, at) if depth == 1 else None  # type: ignore[call-overload]
            if colon is not None:
                key, at = (start, end), colon.end()
                if data[at : at + 1] != b'"':
                    key = None
            elif key is not None:
                yield key, start, end
                key = None
    raise _Unusual


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


def _is(data: Buffer, key: tuple[int, int], name: str) -> bool:
    if key[1] - key[0] > 6 * len(name):
        return False
    try:
        return bool(json.loads(b'"%s"' % data[slice(*key)]) == name)
    except ValueError:
        return False
