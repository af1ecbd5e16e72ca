# SPDX-License-Identifier: Apache-2.0
"""Take secrets out of texts: values of settings that are secrets, wherever they stand, and what looks like one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from bundle.paths import VALUES

MARK = "<removed>"
# Names of settings whose values are secrets. PARSER_API_KEYS holds hashes; they are removed as well.
SECRET_NAME = re.compile(
    r"(?i)(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|AUTHORIZATION|COOKIE|DATABASE_URL|OTLP_HEADERS)"
)
# What stands before the host of an address, whatever is in it.
USER_PART = re.compile(r"[a-z][a-z0-9+.-]*://(?:[^:@]*:)?(?P<password>.+)@", re.DOTALL)
# A value shorter than this is no secret, and removing it everywhere would make the texts unreadable.
SHORTEST = 6
# What looks like one by its name alone: a tokenizer, a number of tokens, a token's number.
NO_SECRET = (
    r"(?![\w-]*(?i:tokenizer(?:[_-](?:mode|revision|init))?[\"']?[\s=:,]"
    r"|token(?:s|s[_-]per[_-]second|[_-]ids?|[_-]threshold)[\"']?[\s=:,]+[\"']?\d{1,8}(?:\.\d+)?(?!\w|\.\w)))"
)
NAMED = (
    rf"[\"']?\b{NO_SECRET}[A-Za-z0-9_-]*(?i:key|token|secret|password|passwd|credential|authorization|cookie)"
    r"[A-Za-z0-9_-]*[\"']?\s*[=:]\s*"
)
PATTERNS = (
    # The user part of an address: scheme://user:password@host
    re.compile(r"(?P<keep>\b[a-z][a-z0-9+.-]*://)[^/\s@\"']+@"),
    # The same with a password in which @ and / are not written as %40 and %2F.
    re.compile(r"(?P<keep>\b[a-z][a-z0-9+.-]*://)[^/\s@:\"']*:[^\s\"']*@"),
    re.compile(r"(?P<keep>(?i:\b(?:bearer|basic)\s+))[A-Za-z0-9._~+/=-]{6,}"),
    re.compile(r"(?P<keep>\bsha256:)[0-9a-f]{64}\b(?!\s*digest)"),
    # NAME=value, NAME: value and "NAME": "value", where NAME says that it is a secret; and NAME: ['value', ...]. What
    # begins an object of JSON, or a list of short numbers, is no value.
    re.compile(rf"(?P<keep>{NAMED})\[\s*[\"'][^\]]{{0,2000}}\]"),
    re.compile(
        rf"(?P<keep>{NAMED}[\"']?)(?!\s|[\"']|null\b|None\b|\$\{{|[\[{{](?:[\s\"'\]}}]|\d{{1,8}}[,\]]))[^\s\"',}}]+"
    ),
    # A program's words, in a list of processes or in VLM_ARGS: --api-key value another
    re.compile(
        rf"(?P<keep>--{NO_SECRET}[\w-]*(?:key|token|secret|password)[\w-]*(?:=|[\"']?[\s,]+)[\"']?)(?!-)[^\s\"',]+"
        r"(?:[\"']?[ \t,]+[\"']?(?!-)[^\s\"',]+)*"
    ),
    # A signed address of a result opens it for everyone.
    re.compile(r"(?P<keep>[?&](?:signature|sig|token|key|expires)=)[^\s&\"']+"),
    re.compile(r"(?P<keep>/api/v2/ocr/results/[^/\s\"']+/)[^/\s\"'…]+"),
    # Secrets of callbacks, and the names of keys of a bucket.
    re.compile(r"(?P<keep>)\bwhsec_[A-Za-z0-9+/=_-]+"),
    re.compile(r"(?P<keep>)\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    # Private keys in PEM form, with all their lines.
    re.compile(r"(?P<keep>)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL),
)


def secrets(settings: Mapping[str, str], contents: Iterable[str] = ()) -> list[str]:
    """Return the secret values, longest first: those of settings with secret names, each entry of a list by itself, the
    passwords in addresses, and the words of files that hold secrets (`contents`)."""
    values = {value for name, value in settings.items() if SECRET_NAME.search(name)}
    values |= {found["password"] for value in settings.values() if (found := USER_PART.match(value))}
    words = {word for value in (*values, *contents) for word in (value, *re.split(r"[\s,;]+", value))}
    # A path names a secret's file and is none itself.
    return sorted((word for word in words if len(word) >= SHORTEST and not word.startswith("/")), key=len, reverse=True)


class Redactor:
    """Takes `secrets` and everything that PATTERNS name out of a text."""

    def __init__(self, known: Iterable[str]) -> None:
        alternatives = "|".join(map(re.escape, known))
        self._known = re.compile(alternatives) if alternatives else None

    def __call__(self, text: str) -> str:
        if self._known:
            text = self._known.sub(MARK, text)
        for pattern in PATTERNS:
            text = pattern.sub(lambda match: f"{match['keep']}{MARK}", text)
        return text


def redactor() -> Redactor:
    """Knows the values of secret settings, and the words of the file that PARSER_API_KEYS_FILE names."""
    file = VALUES.get("PARSER_API_KEYS_FILE")
    try:
        contents = [Path(file).read_text(encoding="utf-8", errors="replace")] if file else []
    except OSError:
        contents = []  # the container's path; its content is in no output
    return Redactor(secrets(VALUES, contents))
