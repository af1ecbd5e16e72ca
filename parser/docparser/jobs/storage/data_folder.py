# SPDX-License-Identifier: Apache-2.0
"""The data directory: its checks, its small files, and the service processes that use it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TextIO

from docparser.errors import DataDirFull, StorageUnavailable

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
DATABASE = "jobs.sqlite3"


def write_new(path: Path, pieces: Iterable[bytes]) -> int:
    """Write a file that is not there, for this user only, and flush it to the disk. Returns its bytes. Raises
    OSError."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        size = sum(file.write(piece) for piece in pieces)
        file.flush()
        os.fsync(file.fileno())
    return size


def flush_folder(path: Path) -> None:
    """Flush the names in a folder to the disk, as fsync does for a file's content."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class FolderFiles:
    """Files in ``root``, for this user only, flushed to the disk. Contents are whole or not there. Methods raise
    OSError."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def read(self, name: str) -> bytes | None:
        """None if there is no such file."""
        with contextlib.suppress(FileNotFoundError):
            return (self._root / name).read_bytes()
        return None

    def create(self, name: str, content: bytes) -> bool:
        """False if there is one already, which stays as it is."""
        with self._written(name, content) as new:
            try:
                os.link(new, self._root / name)
            except FileExistsError:
                return False
        return True

    def replace(self, name: str, content: bytes) -> None:
        with self._written(name, content) as new:
            new.replace(self._root / name)

    def remove(self, name: str) -> None:
        (self._root / name).unlink(missing_ok=True)

    def names(self, prefix: str) -> list[str]:
        return [path.name for path in self._root.iterdir() if path.name.startswith(prefix)]

    @contextlib.contextmanager
    def _written(self, name: str, content: bytes) -> Iterator[Path]:
        """A hidden file that gets its name inside."""
        path = self._root / f".{name}-{secrets.token_hex(8)}"
        try:
            write_new(path, [content])
            yield path
        finally:
            path.unlink(missing_ok=True)
        flush_folder(self._root)


class DataFolder:
    """``root`` with ``jobs`` below it. Methods raise StorageUnavailable, and DataDirFull where the disk has no room."""

    failure = ""  # in words, of a file operation since the last `probe`

    def __init__(self, root: Path) -> None:
        """Make the missing folders. Only the service's user may read them."""
        self.root, self.jobs, self.database = root, root / "jobs", root / DATABASE
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.jobs.mkdir(exist_ok=True, mode=0o700)
        self._close_to_others()
        self._identity = self._look()

    def check(self) -> None:
        """Whether the directory is there, is the same, and may be written. Cheap."""
        if self._look() != self._identity:
            raise StorageUnavailable(
                f"PARSER_DATA_DIR: {self.root} was replaced by a directory without jobs. Mount the volume again, or "
                "restart the service to begin with this one."
            )
        if not self.jobs.is_dir():
            raise StorageUnavailable(
                f"PARSER_DATA_DIR: {self.jobs} is missing. Put it back, or restart the service to continue without "
                "these jobs."
            )
        for path in (self.root, self.jobs, self.database):
            if path.exists() and not os.access(path, os.W_OK):
                raise StorageUnavailable(f"PARSER_DATA_DIR: {path} cannot be written; make it writable.")

    def moved(self) -> bool:
        """Whether another directory with jobs in it is at the path: a backup that was put in place, say."""
        return self._look() != self._identity and self.jobs.is_dir()

    def adopt(self) -> None:
        """Take the directory that is at the path now for the one that was opened."""
        self._identity = self._look()
        self._close_to_others()

    def probe(self) -> None:
        """Write a file, flush it to the disk and remove it."""
        path = self.root / f".probe-{secrets.token_hex(8)}"
        with self.named_errors():
            try:
                write_new(path, [bytes(4096)])
            finally:
                path.unlink(missing_ok=True)
        self.failure = ""

    @contextlib.contextmanager
    def named_errors(self) -> Iterator[None]:
        """Turns OSError into DataDirFull or StorageUnavailable."""
        try:
            yield
        except OSError as exc:
            if exc.errno in NO_ROOM:
                raise DataDirFull(
                    f"PARSER_DATA_DIR has no room left ({exc.strerror}); free some and try again. Nothing of earlier "
                    "results is lost."
                ) from exc
            self.failure = f"PARSER_DATA_DIR: {self.root} cannot be used ({exc.strerror or exc})."
            raise StorageUnavailable(self.failure) from exc

    def _look(self) -> tuple[int, int]:
        try:
            found = self.root.stat()
        except OSError as exc:
            raise StorageUnavailable(f"PARSER_DATA_DIR: {self.root} is missing ({exc.strerror}); put it back.") from exc
        return found.st_dev, found.st_ino

    def _close_to_others(self) -> None:
        """A restored backup may be readable by others."""
        for path in (self.jobs, self.root / "processes", *self.root.glob(f"{DATABASE}*"), self.root / "in-use.lock"):
            with contextlib.suppress(OSError):
                path.chmod(path.stat().st_mode & 0o700)


class Processes:
    """Each process holds a lock on its own file, which the kernel releases when it dies. ``name`` is the name of this
    one, unique among all that ever used the directory.

    So the steps of a killed process are free at once, without a lease. This works among all processes of one machine,
    in containers too, but not over a network file system.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.name = f"{os.getpid()}-{secrets.token_hex(6)}"
        self._file = self._mark()

    def _mark(self) -> TextIO:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Created and locked under a hidden name, so that no process sees the file without its lock.
        hidden = self._folder / f".{self.name}"
        file = os.fdopen(os.open(hidden, os.O_WRONLY | os.O_CREAT, 0o600), "w")
        fcntl.flock(file, fcntl.LOCK_EX)
        hidden.rename(self._folder / self.name)
        return file

    def renew(self) -> None:
        """Make the mark again if it is gone: other processes would take this one for dead."""
        try:
            there = os.path.samestat((self._folder / self.name).stat(), os.fstat(self._file.fileno()))
        except FileNotFoundError:
            there = False
        if not there:
            old, self._file = self._file, self._mark()
            old.close()

    def close(self) -> None:
        (self._folder / self.name).unlink(missing_ok=True)
        self._file.close()

    def dead(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if not self._alive(name)]

    def _alive(self, name: str) -> bool:
        if name == self.name:
            return True
        try:
            with (self._folder / name).open("r") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        (self._folder / name).unlink(missing_ok=True)
        return False
