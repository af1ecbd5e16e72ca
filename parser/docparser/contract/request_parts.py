# SPDX-License-Identifier: Apache-2.0
"""What requests of every interface may say: an address in the place of a document, which pages, and whether these wait.

Who waits for an answer comes before an archive that is worked off. Pages are bulk where their key or their job says so.
What is bulk of a client takes its turns by a name of its own, so the name alone tells it, in this process and in the
queue of several parsers.
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Iterable
from typing import Literal, NamedTuple, get_args

# Of ``2,4-6,9-`` or ``1-10~``, which ends with a shorter document.
PART = re.compile(r"(\d{1,6})(?:(-)(?:(\d{1,6})(~)?)?)?")
MAX_RANGES = 10_000  # characters
MAX_PARTS = 1000
Priority = Literal["interactive", "bulk"]
PRIORITIES: tuple[str, ...] = get_args(Priority)
BULK = " bulk"  # at the end of a client's name


def is_url(file: str) -> bool:
    return re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*://", file) is not None


def file_name_of(file: str) -> str:
    """The last part of an address's path, as it is read (``%20`` is a blank). Empty for anything else: base64 has
    slashes too, and what follows the last one is content."""
    if not is_url(file):
        return ""
    path = file.partition("://")[2].partition("#")[0].partition("?")[0]
    return urllib.parse.unquote(path.partition("/")[2].rpartition("/")[2])


class PageRange(NamedTuple):
    """From ``first`` to ``last``, both included, or to the document's end. ``shorter``: it may end before ``last``."""

    first: int
    last: int | None
    shorter: bool = False


def parse_ranges(text: str, base: int = 1) -> list[PageRange]:
    """``base`` is the number of a document's first page. Raises ValueError."""
    parts = text.split(",")
    if len(parts) > MAX_PARTS:
        raise ValueError(f"{len(parts)} parts; at most {MAX_PARTS} are allowed")
    return [_parsed(part.strip(), base) for part in parts]


def _parsed(part: str, base: int) -> PageRange:
    match = PART.fullmatch(part)
    if not match:
        raise ValueError(f"{part[:40]!r} is neither a page nor a range; expected like 2,4-6,9-")
    first = int(match[1])
    last = first if match[2] is None else int(match[3]) if match[3] else None
    if first < base or (last is not None and last < first):
        raise ValueError(f"{part!r} is empty; pages are counted from {base}, lower end first")
    return PageRange(first, last, match[4] is not None)


def select_pages(ranges: Iterable[PageRange], count: int, base: int = 1) -> list[int]:
    """The numbers, ascending and each once, of the pages that a document of ``count`` pages has in ``ranges``.

    Raises ValueError for a page that the document does not have: nothing is left out silently.
    """
    end, pages = base + count - 1, set[int]()
    for first, last, shorter in ranges:
        last = end if last is None or (shorter and last > end) else last
        if max(first, last) > end:
            raise ValueError(f"{max(first, last)} is not a page of the document, which has the pages {base} to {end}")
        pages.update(range(first, last + 1))
    return sorted(pages)


def with_priority(client: str, *, bulk: bool) -> str:
    return client + BULK if bulk and not is_bulk(client) else client


def is_bulk(client: str) -> bool:
    return client.endswith(BULK)
