# SPDX-License-Identifier: Apache-2.0
"""Reads JSON of strangers: what RFC 8259 allows, in UTF-8, and only values that everything behind it can carry.

Python's reader also takes NaN and Infinity, numbers of any size, halves of surrogate pairs, UTF-16, and nesting until
its stack is full. Each of these fails somewhere later, where nobody knows any more that the request is to blame.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

MAX_DEPTH = 64  # of nested arrays and objects; a result's own blocks need less than ten
MAX_VALUES = 10_000  # of a body that is options and a document; who sets every option has fewer than a thousand
INTEGERS = range(-(2**63), 2**64)
SURROGATE = re.compile(r"[\ud800-\udfff]")
ESCAPED_SURROGATE = re.compile(r"\\u[dD][89abAB-Fc-f]")
# A string, also one that does not end: so each character is looked at once.
STRING = re.compile(r'"(?:[^"\\]++|\\.?)*+"?', re.DOTALL)
SIGNS = ",[{"  # each value but the outermost follows one of them, or is a member whose key does


class BeyondBounds(ValueError):
    """Arrays and objects are nested deeper than MAX_DEPTH, or there are more values than such a request needs."""


def loads(data: bytes | str, most: int = MAX_VALUES) -> Any:
    """At most ``most`` values, which are counted before any is made: a value takes up to a hundred times the memory of
    its text, and the reader lets no other thread run.

    Raises json.JSONDecodeError with the reason and, where it is known, the place; BeyondBounds.
    """
    text = _decoded(data) if isinstance(data, bytes) else data
    if not _has_at_most(text, most):
        raise BeyondBounds(f"it has more than {most} values, which is all that such a request may have")
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
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
    return SURROGATE.search(text) is None


def _decoded(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise json.JSONDecodeError(f"not UTF-8 ({exc.reason})", "", exc.start) from None


def _has_at_most(text: str, most: int) -> bool:
    """Whether ``text`` has no more than ``most`` values. Linear in time; it makes no more steps than about twice that.

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
                raise json.JSONDecodeError("a string has half of a surrogate pair, like \\ud800", "", 0)
        elif isinstance(item, dict):
            rest += item.keys()
            rest += item.values()
        elif isinstance(item, list):
            rest += item
