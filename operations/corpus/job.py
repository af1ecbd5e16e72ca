# SPDX-License-Identifier: Apache-2.0
"""The description of a run, for all its processes."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from docparser.errors import StorageAway, StorageUnavailable
from docparser.settings import Settings

from .documents import Unreadable
from .storage import Storage, open_storage

T = TypeVar("T")
AGAIN_S = 2.0


@dataclasses.dataclass(frozen=True)
class Job:
    """``source`` and ``out`` name storages; ``settings`` are variables of the parser, which a node's own override.
    ``request`` holds the fields of each page's request, ``formats`` the outputs, ``models`` the weights as results name
    them; ``demo`` is set for a VLM with the demo weights. ``patience_s``: how long a storage or all VLM servers may be
    away. ``threads`` are those of the layout model in one process."""

    source: str
    out: str
    vlms: tuple[str, ...]
    settings: Mapping[str, str]
    request: Mapping[str, Any]
    formats: tuple[str, ...]
    models: Mapping[str, Any]
    demo: bool
    pages_per_part: int
    patience_s: float
    threads: int

    def input(self) -> Storage:
        return _opened(self.source, "INPUT")

    def output(self) -> Storage:
        return _opened(self.out, "--out")

    @property
    def made_with(self) -> dict[str, Any]:
        """The options that tell versions of a document's outputs apart."""
        return {"request": dict(self.request), "formats": list(self.formats)}

    def parser_settings(self, folder: Path) -> Settings:
        """The parser's settings in a process that reads pages; ``folder`` is for its documents at work."""
        for name, value in self.settings.items():
            os.environ.setdefault(name, value)
        return Settings(
            workers=1,
            cpu_threads=self.threads,
            spool_dir=folder,
            visualize=False,
            vlm_url=self.vlms[0],
            vlm_further_urls=",".join(self.vlms[1:]),
            vlm_patience_s=self.patience_s,
            page_timeout_s=Settings().page_timeout_s + self.patience_s,
        )

    def patiently(self, call: Callable[[], T]) -> T:
        """The result of ``call``, which is repeated while a storage is away. Raises StorageUnavailable."""
        deadline = time.monotonic() + self.patience_s
        while True:
            try:
                return call()
            except StorageUnavailable:
                if time.monotonic() > deadline:
                    raise
                time.sleep(AGAIN_S)

    def fetch(self, name: str, path: Path) -> None:
        """Write a document's bytes to ``path``. Raises Unreadable if it is gone, or if it alone may not be read;
        StorageUnavailable."""
        if not self.patiently(lambda: self._download(name, path)):
            raise Unreadable("it is gone; it was there when the run began")

    def _download(self, name: str, path: Path) -> bool:
        storage = self.input()
        try:
            return storage.download(name, path)
        except StorageAway:
            raise
        except StorageUnavailable as error:
            next(iter(storage.entries()), None)  # raises if all is refused
            raise Unreadable(f"it may not be read ({error.__cause__})") from error


@functools.cache
def _opened(url: str, option: str) -> Storage:
    """One for all threads of a process: a client of S3 takes a tenth of a second to make."""
    return open_storage(url, option)


@contextlib.contextmanager
def at_work() -> Iterator[Path]:
    """A folder for one document, removed at the end."""
    with tempfile.TemporaryDirectory(prefix="corpus-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)
