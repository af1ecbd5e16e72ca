# SPDX-License-Identifier: Apache-2.0
"""The record of each document beside its outputs: done, incomplete, or set aside with the reason.

A record is one small object, written after all outputs of its document, so half-written outputs have none. Its name
holds the document's version, so one listing tells which documents are left, without reading any.
"""

from __future__ import annotations

import dataclasses
import json

from .documents import STATE, Document
from .storage import Storage

DONE, INCOMPLETE, ASIDE = f"{STATE}done/", f"{STATE}incomplete/", f"{STATE}aside/"
FOLDERS = (DONE, INCOMPLETE, ASIDE)
END = ".json"


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a document ended. ``pages`` counts all, ``missing`` those that could not be read, ``incomplete`` those with
    a block that could not be read. ``reason`` is why the document was set aside; "" if it is written."""

    document: str
    pages: int = 0
    missing: int = 0
    incomplete: int = 0
    reason: str = ""

    @property
    def folder(self) -> str:
        """Where its record lies."""
        return ASIDE if self.reason else INCOMPLETE if self.missing or self.incomplete else DONE


def keep(storage: Storage, document: Document, outcome: Outcome) -> None:
    """The last step of a document. Raises StorageUnavailable."""
    storage.put(f"{outcome.folder}{document.key}{END}", json.dumps(dataclasses.asdict(outcome)).encode())


def ended(storage: Storage, document: Document) -> Outcome | None:
    """How a written document ended; None if it is not written. Raises StorageUnavailable."""
    for folder in (DONE, INCOMPLETE):
        if record := storage.get(f"{folder}{document.key}{END}"):
            return Outcome(**json.loads(record))
    return None


def keys(storage: Storage, folder: str) -> set[str]:
    """``Document.key`` of all that have a record in ``folder``. An empty one is what a power cut left."""
    return {entry.key.removeprefix(folder).removesuffix(END) for entry in storage.entries(folder) if entry.size}


def forget(storage: Storage, document: Document, folder: str) -> None:
    """Remove a document's record in ``folder``, so that it is tried again."""
    storage.delete(f"{folder}{document.key}{END}")
