# SPDX-License-Identifier: Apache-2.0
"""JSON of strangers: what Python's reader takes beyond the standard is refused, and nothing of the standard is."""

from __future__ import annotations

import json
import random
import time
from typing import Any

import pytest

from docparser.contract import strict_json


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"NaN", "NaN"),
        (b'{"a": [1, {"b": -Infinity}]}', "-Infinity"),
        (b"[1e999]", "larger than"),
        (b'{"a": {"b": -1e400}}', "larger than"),
        (b"[" + b"9" * 30 + b"]", "64 bits"),
        (b"[" + b"9" * 5000 + b"]", "4300"),
        (b'{"a": ["\\ud800"]}', "surrogate"),
        (b'{"\\uDFFF": 1}', "surrogate"),
        (b'"\xed\xa0\x80"', "UTF-8"),
        (b'"\xff"', "UTF-8"),
        ('{"a": 1}'.encode("utf-16"), "UTF-8"),
        (b"{", "Expecting"),
        (b"", "Expecting"),
    ],
)
def test_refused(data: bytes, words: str):
    with pytest.raises(json.JSONDecodeError, match=words):
        strict_json.loads(data)


@pytest.mark.parametrize("depth", [strict_json.MAX_DEPTH + 1, 500, 100_000])
@pytest.mark.parametrize("bracket", ["[]", "{}"])
def test_nested_too_deeply(depth: int, bracket: str):
    opening, closing = ("[", "]") if bracket == "[]" else ('{"a":', "}")
    text = opening * depth + "1" + closing * depth
    with pytest.raises(strict_json.BeyondBounds):
        strict_json.loads(text.encode())


def test_at_the_limit():
    depth = strict_json.MAX_DEPTH
    assert strict_json.loads("[" * depth + "]" * depth)
    assert strict_json.loads(b'\xef\xbb\xbf{"a": "\\ud83d\\ude00 \\\\ud800"}') == {"a": "😀 \\ud800"}


def some_value(chance: random.Random, depth: int = 0) -> Any:
    kind = chance.randrange(8 if depth < 6 else 6)
    if kind == 6:
        return [some_value(chance, depth + 1) for _ in range(chance.randrange(5))]
    if kind == 7:
        return {some_text(chance): some_value(chance, depth + 1) for _ in range(chance.randrange(5))}
    integer = chance.randrange(-(2**63), 2**64)
    return (None, chance.random() < 0.5, integer, chance.uniform(-1e300, 1e300), some_text(chance), 0)[kind]


def some_text(chance: random.Random) -> str:
    codes = (chance.choice((chance.randrange(0xD800), chance.randrange(0xE000, 0x110000))) for _ in range(5))
    return "".join(map(chr, codes))


def test_the_standard_is_read_as_it_is():
    for seed in range(200):
        value = some_value(random.Random(seed))
        for ascii_only in (True, False):
            assert strict_json.loads(json.dumps(value, ensure_ascii=ascii_only).encode()) == value, seed


def test_whatever_comes_is_read_or_refused():
    """Pieces of JSON in any order: about every tenth text is JSON for Python's reader."""
    chance = random.Random(0)
    pieces = [
        *'{}[]",:',
        '"a"',
        '{"a":',
        "[1,",
        "1e999",
        "-1E5",
        "NaN",
        "Infinity",
        '"\\ud800"',
        '"\\udc00',
        "9" * 25,
        "\xed",
    ]
    for _ in range(10_000):
        data = "".join(chance.choices(pieces, k=chance.randrange(1, 6))).encode("latin-1")
        try:
            value = strict_json.loads(data)
        except (json.JSONDecodeError, strict_json.BeyondBounds):
            continue
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1", 0),
        ("[1,2,3]", 3),
        ('{"a":1,"b":[{}]}', 4),
        ('["a,b,[{", "\\",,,\\\\", ""]', 3),
        ('["' + "," * 1000 + '", 1]', 2),
    ],
)
def test_values_are_counted_outside_strings(text: str, values: int):
    json.loads(text)
    assert strict_json.loads(text, values) == json.loads(text)
    if values:
        with pytest.raises(strict_json.BeyondBounds, match=f"more than {values - 1} values"):
            strict_json.loads(text, values - 1)


@pytest.mark.parametrize("piece", ["1,", '"",', "{},", '"', '\\"', '"\\', ",", "["])
def test_what_is_beyond_its_bound_is_refused_before_it_is_read(piece: str):
    """And in a time that grows with the text, whatever it is: a second for 6 MB would be slow."""
    text = "[" + piece * (6_000_000 // len(piece))
    began = time.monotonic()
    with pytest.raises((strict_json.BeyondBounds, json.JSONDecodeError)):
        strict_json.loads(text)
    assert time.monotonic() - began < 5
