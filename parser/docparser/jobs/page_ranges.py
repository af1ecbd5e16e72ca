# SPDX-License-Identifier: Apache-2.0
"""``pageRanges``: which pages of a document a job is about."""

from __future__ import annotations

import re

from docparser.errors import InvalidJob

PART = re.compile(r"(\d{1,6})(?:(-)(\d{1,6})?)?")
MAX_PARTS = 1000


def check(text: str) -> None:
    """Raises InvalidJob for what is not a list of pages and ranges."""
    _parse(text)


def select(text: str | None, count: int) -> list[int]:
    """The page numbers (from 1, ascending, each once) that ``text`` names in a document of ``count`` pages.

    ``2,4-6,9-``: single pages, ranges, and from a page to the end; None means all. Raises InvalidJob, also for a page
    that the document does not have: nothing is left out silently.
    """
    if text is None:
        return list(range(1, count + 1))
    pages: set[int] = set()
    for first, last in _parse(text):
        end = count if last is None else last
        if max(first, end) > count:
            raise InvalidJob(
                f"pageRanges: {text!r} names page {max(first, end)}, but the document has {count} "
                f"{'page' if count == 1 else 'pages'}"
            )
        pages.update(range(first, end + 1))
    return sorted(pages)


def _parse(text: str) -> list[tuple[int, int | None]]:
    parts = text.split(",")
    if len(parts) > MAX_PARTS:
        raise InvalidJob(f"pageRanges: {len(parts)} parts; at most {MAX_PARTS} are allowed")
    ranges = []
    for part in parts:
        match = PART.fullmatch(part.strip())
        if not match:
            raise InvalidJob(f"pageRanges: {part.strip()!r} is neither a page nor a range; expected like 2,4-6,9-")
        first = int(match[1])
        last = first if match[2] is None else int(match[3]) if match[3] else None
        if first < 1 or (last is not None and last < first):
            raise InvalidJob(f"pageRanges: {part.strip()!r} is empty; pages are counted from 1, lower end first")
        ranges.append((first, last))
    return ranges
