# SPDX-License-Identifier: Apache-2.0
"""The documents of a corpus, and their parts. A process gets one part at a time."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from file_types import SUFFIXES

from .progress import NAMES_SHOWN, first
from .storage import Storage

STATE = "_corpus/"  # below the outputs' storage: records of finished and failed documents, and parts of those at work
LONGEST_NAME = 200  # bytes
TABLE = "corpus.parquet/"  # below the outputs' storage: a Parquet file for each document


class Unreadable(Exception):
    """The document cannot be read; the message says why."""


@dataclasses.dataclass(frozen=True)
class Document:
    """``name`` is its path below the input; ``size`` in bytes. ``version`` differs for a changed file and for other
    options, which tells their outputs apart; ``former`` are the versions that earlier runs have ended, separated by
    blanks."""

    name: str
    size: int
    version: str
    former: str = ""

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Document:
        """The document in a row of Ray Data."""
        return cls(row["name"], row["size"], row["version"])

    @property
    def key(self) -> str:
        """The document and its version, as names of objects have them."""
        return f"{self.name}@{self.version}"


@dataclasses.dataclass(frozen=True)
class Part:
    """Pages ``first`` to ``last`` (from 1) of the ``pages`` of a document."""

    document: Document
    pages: int
    first: int
    last: int

    @property
    def whole(self) -> bool:
        return self.first == 1 and self.last == self.pages

    @property
    def name(self) -> str:
        """The name of the part's object below the outputs' storage."""
        return f"{parts_of(self.document)}{self.first:06d}-{self.last:06d}.jsonl"


def parts_of(document: Document) -> str:
    """The prefix of the objects of a document's parts."""
    return f"{STATE}parts/{document.key}/"


def split(document: Document, pages: int, pages_per_part: int) -> Iterator[Part]:
    """All pages of a document, in parts of nearly the same length."""
    count = -(-pages // pages_per_part)
    for number in range(count):
        first, last = pages * number // count, pages * (number + 1) // count
        yield Part(document, pages, first + 1, last)


class LeftOut:
    """What is left out of the input: how many names for each reason, and the first of them."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._names: dict[str, list[str]] = {}

    def add(self, reason: str, name: str) -> None:
        self.counts[reason] += 1
        if self.counts[reason] <= NAMES_SHOWN + 1:
            self._names.setdefault(reason, []).append(name)

    def __str__(self) -> str:
        found = (f"{reason}: {count} ({first(self._names[reason])})" for reason, count in self.counts.items())
        return f" Left out: {'; '.join(found)}." if self.counts else ""


def listed(
    storage: Storage, made_with: dict[str, Any], out: str = "", left_out: LeftOut | None = None
) -> Iterator[Document]:
    """The documents below the input, by their names' endings. Others are added to ``left_out``, but for those below
    ``out``."""
    left_out = LeftOut() if left_out is None else left_out
    for entry in storage.entries():
        if (out and entry.key.startswith(out)) or (entry.key.endswith("/") and not entry.size):
            continue  # an empty object of such a name is a bucket's folder
        if any(part.startswith(".") for part in entry.key.split("/")):
            left_out.add("hidden", entry.key)
        elif entry.key.endswith("/"):
            left_out.add("link to a folder, not followed", entry.key)
        elif not entry.key.lower().endswith(SUFFIXES):
            left_out.add("no document by its ending", entry.key)
        else:
            yield Document(entry.key, entry.size, version(entry.size, entry.changed, made_with))


def unfit(name: str) -> str:
    """Why a document's name alone prevents parsing; "" if it does not. Rows are UTF-8, records and tables have longer
    names than their documents, and a bucket's key may point elsewhere as a path."""
    parts = name.split("/")
    try:
        lengths = [len(part.encode()) for part in parts]
    except UnicodeEncodeError:
        return "its name is not UTF-8; rename it"
    if {"", ".", ".."}.intersection(parts):
        return "a part of its name is empty, . or ..; rename it"
    if max(lengths) > LONGEST_NAME:
        return f"a part of its name has more than {LONGEST_NAME} bytes; shorten it"
    return ""


def version(size: int, changed: float, made_with: dict[str, Any]) -> str:
    """Twelve hexadecimal digits for a file and the options that it is parsed with. A digest of the content would read
    the whole corpus at each start."""
    return hashlib.sha256(json.dumps([size, changed, made_with], sort_keys=True).encode()).hexdigest()[:12]
