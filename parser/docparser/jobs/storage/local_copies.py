# SPDX-License-Identifier: Apache-2.0
"""Local copies of a bucket's contents: small files in memory for some seconds, objects on the disk.

Programs open files, so each object is fetched once while somebody uses it.
"""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from docparser.errors import DataDirFull, StorageUnavailable
from docparser.jobs.storage.data_folder import NO_ROOM
from docparser.s3 import Bucket

GOOD_S = 5.0
IDLE_BYTES = 512 << 20  # of copies that nobody uses
PREFIX, IN_USE = "copies-", "in-use"


class BucketFiles:
    """The same methods as ``jobs.storage.data_folder.FolderFiles``. They raise StorageUnavailable."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self._lock = threading.Lock()
        self._seen: dict[str, tuple[float, bytes]] = {}
        self._listed: dict[str, tuple[float, list[str]]] = {}

    def read(self, name: str) -> bytes | None:
        with self._lock:
            looked, content = self._seen.get(name, (-GOOD_S, b""))
        if time.monotonic() - looked < GOOD_S:
            return content
        found = self._bucket.get(name)
        with self._lock:
            if found is None:
                self._seen.pop(name, None)
            else:
                self._seen[name] = time.monotonic(), found
        return found

    def create(self, name: str, content: bytes) -> bool:
        return self._bucket.put_new(name, content)

    def replace(self, name: str, content: bytes) -> None:
        self._bucket.put(name, content)
        self._forget()

    def remove(self, name: str) -> None:
        self._bucket.delete(name)
        self._forget()

    def names(self, prefix: str) -> list[str]:
        with self._lock:
            looked, names = self._listed.get(prefix, (-GOOD_S, []))
        if time.monotonic() - looked < GOOD_S:
            return names
        names = [entry.key for entry in self._bucket.entries(prefix)]
        with self._lock:
            self._listed[prefix] = time.monotonic(), names
        return names

    def _forget(self) -> None:
        with self._lock:
            self._seen.clear()
            self._listed.clear()


@dataclass
class _Copy:
    path: Path
    users: int = 0
    size: int = 0
    ready: threading.Lock = field(default_factory=threading.Lock)
    there: bool = False


class Copies:
    def __init__(self, bucket: Bucket, parent: Path | None) -> None:
        """``parent``: where the folder of this process's copies lies; None for the system's."""
        self._bucket = bucket
        self.folder, self._in_use = _own_folder(parent or Path(tempfile.gettempdir()))
        self._lock = threading.Lock()
        self._copies: dict[str, _Copy] = {}  # the longest unused first

    @contextlib.contextmanager
    def of(self, key: str) -> Iterator[Path]:
        """The path of a copy, which stays as long as the context. Raises FileNotFoundError if there is no such
        object, StorageUnavailable, DataDirFull."""
        copy = self._take(key)
        try:
            with copy.ready:  # others wait for the one that fetches it
                if not copy.there or not copy.path.exists():
                    self._fetch(key, copy)
            yield copy.path
        finally:
            self._leave(key, copy)

    @contextlib.contextmanager
    def passing(self) -> Iterator[Path]:
        """A folder for copies that go with the context. Raises StorageUnavailable, DataDirFull."""
        with _spool_errors():
            self._make_sure_of_folder()
            folder = tempfile.mkdtemp(prefix="pictures-", dir=self.folder)
        try:
            yield Path(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def download(self, key: str, path: Path) -> bool:
        """Write an object to a file below ``folder``; False if there is no such object. Raises StorageUnavailable,
        DataDirFull."""
        with _spool_errors():
            self._make_sure_of_folder()
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            return self._bucket.download(key, path)

    def _make_sure_of_folder(self) -> None:
        """Make it again if somebody cleaned the place of temporary files."""
        with self._lock:
            if not (self.folder / IN_USE).exists():
                self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                self._in_use.close()
                self._in_use = _marked(self.folder)

    def forget(self, prefix: str) -> None:
        """Remove unused copies whose key begins with ``prefix``."""
        with self._lock:
            for key in [key for key, copy in self._copies.items() if key.startswith(prefix) and not copy.users]:
                self._copies.pop(key).path.unlink(missing_ok=True)

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self._in_use.close()

    def _take(self, key: str) -> _Copy:
        with self._lock:
            copy = self._copies.pop(key, None) or _Copy(self.folder / key.replace("/", "-"))
            self._copies[key] = copy
            copy.users += 1
            return copy

    def _fetch(self, key: str, copy: _Copy) -> None:
        copy.there = False  # until all of it is there
        if not self.download(key, copy.path):
            raise FileNotFoundError(key)
        copy.size, copy.there = copy.path.stat().st_size, True

    def _leave(self, key: str, copy: _Copy) -> None:
        with self._lock:
            copy.users -= 1
            if not copy.there and not copy.users:
                copy.path.unlink(missing_ok=True)
                self._copies.pop(key, None)
            idle = sum(other.size for other in self._copies.values() if not other.users)
            for name, other in list(self._copies.items()):
                if idle <= IDLE_BYTES:
                    return
                if not other.users:
                    self._copies.pop(name).path.unlink(missing_ok=True)
                    idle -= other.size


def _own_folder(parent: Path) -> tuple[Path, BinaryIO]:
    """A new folder, and the lock that marks it as this process's. Folders of processes that were killed are removed."""
    parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    for lock in parent.glob(f"{PREFIX}*/{IN_USE}"):
        with contextlib.suppress(OSError), lock.open("rb") as held:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(lock.parent, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    return folder, _marked(folder)


def _marked(folder: Path) -> BinaryIO:
    """The lock, which is held until the file is closed."""
    file = (folder / f".{IN_USE}").open("wb")
    fcntl.flock(file, fcntl.LOCK_EX)
    (folder / f".{IN_USE}").rename(folder / IN_USE)  # nobody sees it without its lock
    return file


@contextlib.contextmanager
def _spool_errors() -> Iterator[None]:
    """Turns OSError of the local disk into DataDirFull or StorageUnavailable: no object is missing because of it."""
    try:
        yield
    except OSError as exc:
        words = f"PARSER_SPOOL_DIR: a copy of the document cannot be written ({exc.strerror or exc}); "
        if exc.errno in NO_ROOM:
            raise DataDirFull(f"{words}free some room and try again.") from exc
        raise StorageUnavailable(f"{words}make the directory writable and try again.") from exc
