# SPDX-License-Identifier: Apache-2.0
"""The file .env, as Compose reads it. Variables of the environment win over it, also inside its values.

Grammar: a statement is a name, blanks if any, = or :, and a value; `export` may stand before it. A name alone takes
the environment's value. # begins a comment at the start of a statement, and after a blank in a value without quotes.
In double quotes, and without quotes, variables are replaced, in double quotes also \\n and its like. Quoted values may
have several lines. Source: packages dotenv and template of github.com/compose-spec/compose-go, v2.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Mapping
from pathlib import Path

from tool_errors import UsageError

BLANK = "\t\v\f\r \x85\xa0"  # within a line
SPACE = "\n" + BLANK + "\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
SIGNS_OF_NAMES = "_.-[]"
ESCAPE = re.compile(r'\\([abcfnrtv$"\\]|0[0-9]{0,3})')
ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", '"': '"', "\\": "\\"}
NAME = "[_a-zA-Z][_a-zA-Z0-9]*"
# A brace reaches to the last one of its line; `_expanded` finds the one that closes it.
VARIABLE = re.compile(rf"\$(?:(?P<dollar>\$)|(?P<name>{NAME})|\{{(?:(?P<braced>{NAME}(?::?[-+?].*)?)\}}|(?P<broken>)))")
BRACED = re.compile(rf"(?P<name>{NAME})(?:(?P<colon>:?)(?P<sign>[-+?])(?P<word>.*))?", re.DOTALL)


class Broken(ValueError):
    """What is wrong, without the line's number."""


class Cut(str):
    """A value that names a variable which is not set: nothing stands there. Compose warns of that name alone."""


def parse(text: str, env: Mapping[str, str], name: str = ".env") -> dict[str, str]:
    """The values by key; ``env`` is what variables in them mean first. Raises UsageError with the line's number."""
    values: dict[str, str] = {}
    text = text.removeprefix("\ufeff")
    rest = text.lstrip(SPACE)
    while rest:
        begin = rest
        try:
            rest = _statement(rest, values, env)
        except Broken as error:
            number = text.count("\n", 0, len(text) - len(begin)) + 1
            raise UsageError(f"{name}, line {number}: {error}") from None
        rest = rest.lstrip(SPACE)
    return values


def merged(path: Path) -> dict[str, str]:
    """Return the file's values, overridden by the environment's; an empty variable of the environment counts as set.

    Raises UsageError.
    """
    return {**read(path, os.environ), **os.environ}


def read(path: Path, env: Mapping[str, str]) -> dict[str, str]:
    """The file's values, none where there is no file. Raises UsageError, also for a file that this user may not
    read."""
    if not path.is_file():
        return {}
    try:
        text = path.read_bytes().decode("utf-8", "surrogateescape")
    except PermissionError:
        raise UsageError(f"this user may not read {path}; its owner and root (sudo) may") from None
    return parse(text, env, path.name)


def _statement(text: str, values: dict[str, str], env: Mapping[str, str]) -> str:
    """Read the statement or comment at the start of `text` into `values`; return what follows. Raises Broken."""
    line, _, below = text.partition("\n")
    if text.startswith("#"):
        return below
    if re.match(r"export[\t\n\f\r ]", text):
        text = text[len("export") :].lstrip(BLANK)
    end = next((place for place, sign in enumerate(text) if sign in "=:\n"), len(text))
    key = text[:end].rstrip(SPACE)
    alone = text[end : end + 1] in ("", "\n")
    if " " in key or not (key or alone) or not all(map(_of_a_name, key)):
        raise Broken(f"{line.rstrip()!r} is not KEY=VALUE")
    if alone:
        if key in env:
            values[key] = env[key]
        return text[end + 1 :]
    rest = text[end + 1 :].lstrip(BLANK)
    if rest[:1] in ("'", '"'):
        values[key], rest = _quoted(rest, values, env)
        return rest
    value, _, rest = rest.partition("\n")
    values[key] = expanded(value.partition(" #")[0].rstrip(SPACE), values, env)
    return rest


def _of_a_name(sign: str) -> bool:
    return sign in SIGNS_OF_NAMES or sign in BLANK or unicodedata.category(sign)[0] in "LN"


def _quoted(text: str, values: Mapping[str, str], env: Mapping[str, str]) -> tuple[str, str]:
    """The value of the quotes at the start of `text`, and what follows them. Raises Broken."""
    quote = text[0]
    # A backslash before anything else stays.
    found = re.match(rf"{quote}((?:\\.|[^\\{quote}])*){quote}", text, re.DOTALL)
    if not found:
        raise Broken(f"the quote {quote} is not closed")
    value = re.sub(r"\\(.)", lambda match: quote if match[1] == quote else match[0], found[1], flags=re.DOTALL)
    if quote == '"':
        value = expanded(ESCAPE.sub(lambda match: _character(match[1], match[0]), value), values, env)
    return value, text[found.end() :]


def _character(code: str, whole: str) -> str:
    """What an escape stands for; one that stands for nothing remains."""
    if code == "$":
        return "$$"
    if code[0] == "0":
        digits = code[1:]
        return chr(int(digits, 8)) if re.fullmatch("[0-3][0-7]{2}", digits) else whole
    return ESCAPES.get(code, whole)


def expanded(text: str, values: Mapping[str, str], env: Mapping[str, str]) -> str:
    """`text` with its variables replaced: $X ${X} ${X:-d} ${X-d} ${X:+w} ${X+w} ${X:?e} ${X?e}, and $$ for $.

    Words may hold variables too. A Cut if one of them is not set. Raises Broken.
    """

    known, cut = {**values, **env}, False

    def put(match: re.Match[str]) -> str:
        if match["dollar"]:
            return "$"
        if match["name"]:
            return noted(known.get(match["name"], Cut()))
        if not match["braced"]:
            raise Broken("${ begins no variable; write $$ for a dollar, or put the value into single quotes")
        whole = match[0]
        close = _closing(whole)
        inner, rest = (whole[2:close], whole[close + 1 :]) if close > 0 else (whole[2:-1], "")
        return noted(_chosen(inner, known)) + noted(expanded(rest, values, env))

    def noted(part: str) -> str:
        nonlocal cut
        cut |= isinstance(part, Cut)
        return part

    result = VARIABLE.sub(put, text)
    return Cut(result) if cut else result


def _closing(text: str) -> int:
    """Where the first brace of `text` is closed, -1 if it is not. The sign after an opening brace does not count."""
    depth = place = 0
    while place < len(text):
        if text[place] == "}":
            depth -= 1
            if depth == 0:
                return place
        elif text[place] == "{":
            depth += 1
            place += 1
        place += 1
    return -1


def _chosen(inner: str, known: Mapping[str, str]) -> str:
    """What stands for ${inner}. Raises Broken."""
    parts = BRACED.fullmatch(inner)
    assert parts, inner
    name, word = parts["name"], parts["word"]
    value = known.get(name, "" if parts["sign"] else Cut())
    there = bool(value) if parts["colon"] else name in known
    if (parts["sign"] == "-" and not there) or (parts["sign"] == "+" and there):
        return expanded(word, known, {})
    if parts["sign"] == "?" and not there:
        raise Broken(f"{name} is required" + (f": {reason}" if (reason := expanded(word, known, {})) else ""))
    return value
