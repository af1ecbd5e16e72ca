# SPDX-License-Identifier: Apache-2.0
"""What of documents was given up because it took too long: it is not begun again, whoever sends it, as long as the
service runs.

A document is known by its content. That is hashed only when something of a document of its size was given up before, so
it costs others nothing.
"""

from __future__ import annotations

import asyncio
import collections
import functools
import hashlib
import os

from docparser.contract.schemas import ParseOptions
from docparser.documents.spool import Document
from docparser.errors import DocumentTooSlow, StepTooSlow

REMEMBERED = 1000  # documents
GIVE_UP_AFTER = 3  # pages of one document; then none of its other pages is begun


OPENING = "opening"
Part = int | str  # a page, from 0; or OPENING; or what `with_options` returns
Given = dict[Part, str]  # the error's message


def with_options(index: int, options: ParseOptions) -> Part:
    """A page of which one step, which depends on the options, took too long."""
    return f"{index} {options}"


class SlowDocuments:
    """What was given up of which documents."""

    def __init__(self) -> None:
        self._given_up: collections.OrderedDict[bytes, Given] = collections.OrderedDict()
        self._sizes: dict[bytes, int] = {}

    async def check(self, document: Document, *parts: Part) -> None:
        """Raises DocumentTooSlow if one of ``parts`` was given up before."""
        if not self._given_up:
            return
        status = _stat(document)
        if status is None or status.st_size not in self._sizes.values():
            return
        given = self._given_up.get(await self._digest(document), {})
        message = next((given[part] for part in (OPENING, *parts) if part in given), None) or self._for_all(given)
        if message:
            raise DocumentTooSlow(message)

    async def note(self, document: Document, part: Part, error: DocumentTooSlow | StepTooSlow) -> str | None:
        """Remember that ``part`` was given up. Returns what to say of the other pages if none is to be begun any
        more."""
        status = _stat(document)
        if status is None:  # its client left meanwhile, and its file with it
            return None
        digest = await self._digest(document)
        given = self._given_up.setdefault(digest, {})
        self._given_up.move_to_end(digest)
        given.setdefault(part, str(error))
        self._sizes[digest] = status.st_size
        while len(self._given_up) > REMEMBERED:
            del self._sizes[self._given_up.popitem(last=False)[0]]
        return self._for_all(given)

    @staticmethod
    def _for_all(given: Given) -> str | None:
        pages = [part for part in given if isinstance(part, int)]
        if len(pages) < GIVE_UP_AFTER:
            return None
        return f"file: not tried, because {len(pages)} pages of this document took too long; {given[pages[0]]}"

    async def _digest(self, document: Document) -> bytes:
        status = _stat(document)
        stamp = (status.st_mtime_ns, status.st_size, status.st_ino) if status else ()
        return await asyncio.to_thread(_digest, document.path, stamp)


def _stat(document: Document) -> os.stat_result | None:
    try:
        return os.stat(document.path)
    except OSError:
        return None


@functools.lru_cache(maxsize=256)
def _digest(path: str, stamp: tuple[int, ...]) -> bytes:
    """SHA-256 of the file, which ``stamp`` tells from others that had its path."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError:
        return b""
