# SPDX-License-Identifier: Apache-2.0
"""Reads the small part of YAML that ``catalog`` needs, without PyYAML: preflight runs so on a bare node.

It reads block mappings of texts, and skips keys that the caller does not ask for. It refuses everything that PyYAML
might read differently: anchors, aliases, tags, merge keys, flow collections under a wanted key, values that are no
texts, texts of several lines, keys that stand twice, and tabs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

# Whether the value of a key is wanted; gets the keys above it and the key itself.
Wanted = Callable[[tuple[str, ...]], bool]

QUOTED = r""""[^"\\]*"|'[^']*'"""  # without escapes
PAIR = re.compile(rf"(?P<key>{QUOTED}|[A-Za-z0-9_<][\w./<-]*):(?:$| +(?P<value>.*)$)", re.ASCII)
# Begins with a letter or a slash, so that it is no number, date or symbol.
PLAIN = re.compile(r"[A-Za-z_/][\w./+-]*(?: [\w./+-]+)*", re.ASCII)
NULLS = frozenset(("", "~", "null", "Null", "NULL"))
BOOLEANS = frozenset(("true", "false", "yes", "no", "on", "off"))
BLOCK_SCALAR = re.compile(r"(?:[&!]\S* )*[|>][0-9+-]*")
OPENING = ("", "[", "{", '"', "'", "&", "!", "|", ">")  # of values that are no plain texts
OTHER_BREAKS = re.compile("[\r\x0b\x0c\x85\u2028\u2029]")


class UnreadableYaml(Exception):
    """The text uses more of YAML than this reader knows. The message names the line."""


class Line(NamedTuple):
    """``number`` counts from 1; ``text`` is without indentation and without the comment."""

    number: int
    indent: int
    text: str

    def refuse(self, why: str) -> UnreadableYaml:
        return UnreadableYaml(f"line {self.number}: {why} (without PyYAML only lines like KEY: TEXT can be read)")


def load(text: str, wanted: Wanted) -> dict[str, Any]:
    """The mapping that ``text`` holds, with the wanted keys only: texts, None, and mappings of them.

    Raises UnreadableYaml.
    """
    lines = significant_lines(text.replace("\r\n", "\n"))
    lines.reverse()  # the next line is the last, which is cheap to take
    result = read_mapping(lines, 0, (), wanted)
    if lines:
        raise lines[-1].refuse("its indentation fits no line above")
    return result


def significant_lines(text: str) -> list[Line]:
    """The lines without empty ones, comments, and the contents of block scalars."""
    lines: list[Line] = []
    scalar_indent: int | None = None  # indentation of the key whose block scalar is skipped
    for number, raw in enumerate(text.split("\n"), 1):
        line = Line(number, len(raw) - len(raw.lstrip(" ")), raw.strip(" "))
        if not line.text or line.text.startswith("#"):
            continue
        if scalar_indent is not None and line.indent > scalar_indent:
            continue
        scalar_indent = None
        if line.text.startswith(("\t", "---", "...", "%", "? ")) or OTHER_BREAKS.search(line.text):
            raise line.refuse(f"{line.text!r} cannot be read")
        pair = PAIR.match(line.text)
        value = (pair["value"] or "") if pair else line.text.lstrip("- ")
        stripped = without_comment(line, value)
        if pair and value[:1] not in OPENING and re.search(r":(\s|$)", stripped):
            raise line.refuse(f"{stripped!r} holds a colon, as a mapping in the same line would")
        lines.append(line._replace(text=line.text[: len(line.text) - len(value)].rstrip() + " " + stripped))
        if BLOCK_SCALAR.fullmatch(stripped):
            scalar_indent = line.indent
    return lines


def without_comment(line: Line, value: str) -> str:
    """The value without the comment behind it. Raises UnreadableYaml where a quote or a bracket is left open."""
    if value[:1] in ("[", "{"):
        bare = re.sub(r"\s#.*", "", re.sub(r""""(?:[^"\\]|\\.)*"|'[^']*'""", "", value))
        if "'" in bare or '"' in bare or any(bare.count(a) != bare.count(b) for a, b in ("[]", "{}")):
            raise line.refuse("its brackets or quotes do not close in the same line")
        return value
    if value[:1] in ('"', "'"):
        match = re.match(r"""("(?:[^"\\]|\\.)*"|'(?:[^']|'')*')(.*)""", value)
        if not match or not re.fullmatch(r"\s*:?(\s.*|)", match[2]):
            raise line.refuse("its quotes do not close in the same line")
        return match[1] + re.sub(r"(^|\s)#.*", "", match[2]).rstrip()
    return re.sub(r"(^|\s)#.*", "", value).rstrip()


def read_mapping(lines: list[Line], indent: int, above: tuple[str, ...], wanted: Wanted) -> dict[str, Any]:
    """The block mapping at ``indent``, whose lines are taken from the end of ``lines``."""
    result: dict[str, Any] = {}
    seen: set[str] = set()
    while lines and lines[-1].indent == indent:
        line = lines.pop()
        pair = PAIR.match(line.text.rstrip())
        if not pair:
            raise line.refuse(f"{line.text.strip()!r} is not KEY: TEXT")
        key = text_of(line, pair["key"])
        if key is None or key in seen:
            raise line.refuse(f"the key {pair['key']!r} is there twice, or is no text")
        seen.add(key)
        value, deeper = pair["value"] or "", bool(lines) and lines[-1].indent > indent
        if not wanted((*above, key)):
            # A list may be indented no deeper than its key.
            while lines and (lines[-1].indent > indent or (lines[-1].indent == indent and lines[-1].text[0] == "-")):
                lines.pop()
        elif value and deeper:
            raise lines[-1].refuse("it continues the line above, or is indented wrongly")
        elif deeper:
            result[key] = read_mapping(lines, lines[-1].indent, (*above, key), wanted)
        else:
            result[key] = text_of(line, value)
    return result


def text_of(line: Line, value: str) -> str | None:
    """A text, plain or in quotes without escapes; None for null. Raises UnreadableYaml for anything else."""
    if value in NULLS:
        return None
    if re.fullmatch(QUOTED, value):
        return value[1:-1]
    if not PLAIN.fullmatch(value) or value.lower() in BOOLEANS:
        raise line.refuse(f"{value!r} is not surely a text; put it in quotes if it is one")
    return value
