# SPDX-License-Identifier: Apache-2.0
"""The places of documents and outputs: a folder that all nodes see, or a prefix of an S3 bucket."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from bundle import files
from docparser.errors import StorageAway, StorageUnavailable
from docparser.s3 import Bucket, Entry
from tool_errors import UsageError

REFUSED = (errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENXIO)
LOST = "lost+found"  # of a file system itself; only root can list it
HIDDEN_PART = ".part"  # the end of the name of a file that is being written


class Storage(Protocol):
    """A FolderStorage or a Bucket: objects by name, which is their path below it. An object appears whole or not at
    all. Methods raise StorageUnavailable, or StorageAway where trying again may help; any thread may call them."""

    @property
    def url(self) -> str: ...

    def entries(self, prefix: str = "") -> Iterator[Entry]:
        """All objects below ``prefix``, which is empty or ends with a slash."""

    def download(self, name: str, path: Path, /) -> bool:
        """Write an object's content to ``path``; False if there is no such object."""

    def get(self, name: str, /) -> bytes | None:
        """An object's content; None if there is no such object."""

    def put(self, name: str, content: bytes, /) -> None: ...

    def upload(self, name: str, path: Path, /) -> None:
        """Write the content of the file ``path``."""

    def delete(self, name: str, /) -> None:
        """Delete an object; a missing one is no error."""

    def delete_all(self, prefix: str, /) -> None:
        """Delete all objects below ``prefix``, which ends with a slash."""


class FolderStorage:
    """A folder of this machine, or one that every node mounts at the same path."""

    def __init__(self, path: Path) -> None:
        self._root = path.resolve()

    @property
    def url(self) -> str:
        return str(self._root)

    def entries(self, prefix: str = "") -> Iterator[Entry]:
        """A folder that cannot be listed is an error: documents may lie below it. A link to a folder is an entry whose
        key ends with a slash; what lies behind it is not listed."""
        for folder, folders, names in os.walk(self._root / prefix, onerror=self._unlisted):
            folders[:] = sorted(name for name in folders if name != LOST)
            links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
            for name in (*sorted(names), *links):
                path = Path(folder) / name
                try:
                    stat = _stat(path)
                except FileNotFoundError:  # another node has just renamed or removed it
                    continue
                except OSError as error:
                    raise self._failed(error) from error
                if not name.endswith(HIDDEN_PART):
                    key = path.relative_to(self._root).as_posix() + ("/" if name in links else "")
                    yield Entry(key, stat.st_size, stat.st_mtime)

    def download(self, name: str, path: Path) -> bool:
        try:
            shutil.copyfile(self._root / name, path)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise self._failed(error) from error
        return True

    def get(self, name: str) -> bytes | None:
        try:
            return (self._root / name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._failed(error) from error

    def put(self, name: str, content: bytes) -> None:
        with self._part(name) as part:
            part.write_bytes(content)

    def upload(self, name: str, path: Path) -> None:
        with self._part(name) as part:
            shutil.copyfile(path, part)

    def delete(self, name: str) -> None:
        try:
            (self._root / name).unlink(missing_ok=True)
        except OSError as error:
            raise self._failed(error) from error

    def delete_all(self, prefix: str) -> None:
        shutil.rmtree(self._root / prefix, ignore_errors=True)

    @contextlib.contextmanager
    def _part(self, name: str) -> Iterator[Path]:
        """A temporary file beside the wanted one, renamed when it is whole."""
        path = self._root / name
        part = path.with_name(f".{os.uname().nodename}.{os.getpid()}.{threading.get_ident()}{HIDDEN_PART}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            yield part
            files.flush(part)  # a power cut must not leave a record, and empty outputs
            part.replace(path)
        except OSError as error:
            raise self._failed(error) from error
        finally:
            with contextlib.suppress(OSError):
                part.unlink()

    def _unlisted(self, error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            words = (
                f"{error.filename} cannot be listed ({error.strerror}); make it readable, or move it out of the way."
            )
            raise StorageUnavailable(words) from error

    def _failed(self, error: OSError) -> StorageUnavailable:
        refused = isinstance(error, shutil.SpecialFileError) or error.errno in REFUSED
        return (StorageUnavailable if refused else StorageAway)(f"{self._root} cannot be used ({error}).")


def _stat(path: Path) -> os.stat_result:
    """The file's status; a broken link's own."""
    try:
        return path.stat()
    except OSError:
        return path.lstat()


def open_storage(url: str, option: str) -> Storage:
    """The storage that ``url`` names. Raises UsageError for a malformed ``url``, NotReady for a bucket without keys."""
    if url.startswith("s3://"):
        if not url.removeprefix("s3://").partition("/")[0]:
            raise UsageError(f"{option} {url}: names no bucket; expected s3://bucket/prefix")
        return Bucket(url, option)
    if "://" in url:
        raise UsageError(f"{option} {url}: expected a folder, or s3://bucket/prefix")
    return FolderStorage(Path(url))
