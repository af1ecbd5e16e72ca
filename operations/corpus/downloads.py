# SPDX-License-Identifier: Apache-2.0
"""One process's documents at work, as files."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from .job import Job


@dataclasses.dataclass
class Held:
    """A document's file. Hold ``loading`` to check for it or to download it; ``users`` counts those who have it
    open."""

    path: Path
    loading: threading.Lock
    users: int = 0


class Downloads:
    """Each document is downloaded once, however many of its parts this process has at work. Any thread may call it."""

    def __init__(self, job: Job, folder: Path) -> None:
        self._job, self._folder = job, folder
        self._lock = threading.Lock()
        self._held: dict[str, Held] = {}

    @contextlib.contextmanager
    def document(self, name: str) -> Iterator[Path]:
        """A file with a document's bytes. Raises Unreadable, StorageUnavailable."""
        with self._lock:
            if name not in self._held:
                folder = Path(tempfile.mkdtemp(prefix="input-", dir=self._folder))
                self._held[name] = Held(folder / Path(name).name, threading.Lock())
            held = self._held[name]
            held.users += 1
        try:
            with held.loading:
                if not held.path.is_file():
                    self._download(name, held.path)
            yield held.path
        finally:
            with self._lock:
                held.users -= 1
                if not held.users:
                    del self._held[name]
                    shutil.rmtree(held.path.parent, ignore_errors=True)

    def _download(self, name: str, path: Path) -> None:
        # First under another name, so that a broken download never passes for the document.
        unfinished = path.with_name("unfinished")
        self._job.fetch(name, unfinished)
        unfinished.rename(path)
