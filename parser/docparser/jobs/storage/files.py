# SPDX-License-Identifier: Apache-2.0
"""The files of jobs, in folders (``job_folders``) or in a bucket (``job_objects``).

A job has its document, its submission (enough to rebuild the job's row), marks, and finished pages. Each is there as a
whole or not at all. The database names the files that count; repair and retention remove all others.
"""

from __future__ import annotations

import abc
import contextlib
import hashlib
import json
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Union

from docparser.errors import DataDirFull, StorageDamaged
from docparser.jobs.storage.data_folder import FolderFiles

if TYPE_CHECKING:  # boto3 is loaded only where it is used
    from docparser.jobs.storage.local_copies import BucketFiles

JOB_ID = re.compile(r"[0-9a-f]{32}")
PAGE_FOLDER = re.compile(r"(\d{6})-([0-9a-f]{16})")
PAGE_FILE = "page.json"
FILES = "files"  # in page.json: the page's further files and their SHA-256
CANCELLED = "cancelled"
TOLD = "told-"
UNSURE = "unsure"
STORAGE_ID = "place.id"

SmallFiles = Union[FolderFiles, "BucketFiles"]
# Page folder of a job -> its files besides page.json, by name, as files of the local disk.
Pictures = Callable[[str, str], dict[str, Path]]


class JobFiles(abc.ABC):
    """Writes and reads. Methods raise DataDirFull where there is no room, StorageUnavailable when the storage cannot be
    used, StorageDamaged for what cannot be read."""

    storage: str  # the setting and the place that it names, for messages
    small: SmallFiles

    # ---- the storage

    @property
    @abc.abstractmethod
    def failure(self) -> str:
        """Why it could not be used, in words, since the last ``probe``; "" if nothing failed."""

    @abc.abstractmethod
    def check(self) -> None:
        """Raises StorageUnavailable if the storage is known to be unusable. Cheap."""

    @abc.abstractmethod
    def check_room(self) -> None:
        """``check``; and raises DataDirFull early, so that there is always room for the running steps."""

    @abc.abstractmethod
    def probe(self) -> None:
        """Use the storage, to see whether it can be used."""

    def make_sure(self) -> None:
        """``check`` and ``probe``, even on a full disk. If it raises StorageUnavailable, an unreadable page may be
        undamaged."""
        self.check()
        with contextlib.suppress(DataDirFull):
            self.probe()

    def storage_id(self) -> str:
        """Identifies the storage, alike on every machine. The first process makes it."""
        while (found := self.small.read(STORAGE_ID)) is None:
            self.small.create(STORAGE_ID, secrets.token_hex(16).encode())
        return found.decode().strip()

    @abc.abstractmethod
    def close(self) -> None: ...

    # ---- jobs

    @abc.abstractmethod
    def keep_submission(self, job_id: str, document: BinaryIO, submission: dict[str, Any]) -> int:
        """Write a job, as a whole or not at all; returns its bytes."""

    @abc.abstractmethod
    def read_submission(self, job_id: str) -> bytes | None:
        """What was kept of it; None if there is no such job."""

    @abc.abstractmethod
    def document(self, job_id: str) -> AbstractContextManager[Path]:
        """The document as a file of the local disk, for as long as the context. Raises FileNotFoundError."""

    @abc.abstractmethod
    def has_document(self, job_id: str) -> bool: ...

    @abc.abstractmethod
    def exists(self, job_id: str) -> bool: ...

    @abc.abstractmethod
    def job_ids(self) -> set[str]: ...

    @abc.abstractmethod
    def changed(self, job_id: str) -> float:
        """When the job was kept or its entries changed last, in seconds since the epoch; infinite if the job is
        gone."""

    @abc.abstractmethod
    def size(self, job_id: str) -> int:
        """Bytes of all files of the job."""

    def remove(self, job_id: str) -> None:
        """Remove a job; hidden first, so that an interrupted removal leaves no half of a job."""
        if (hidden := self.hide(job_id)) is not None:
            self.remove_hidden(hidden)

    @abc.abstractmethod
    def hide(self, job_id: str) -> str | None:
        """Let a job count as removed. Returns its hidden name, for ``show`` and ``remove_hidden``; None if there is no
        job."""

    @abc.abstractmethod
    def show(self, job_id: str, hidden: str) -> None:
        """Undo ``hide``."""

    @abc.abstractmethod
    def remove_hidden(self, hidden: str) -> None: ...

    @abc.abstractmethod
    def removed(self) -> set[str]:
        """Jobs that were hidden and are not gone yet."""

    @abc.abstractmethod
    def clean(self, before: float) -> Iterator[tuple[str, dict[int, list[str]]]]:
        """Remove half-written and half-removed files from ``before`` that moment, in seconds since the epoch, job by
        job. Yields each job that stays with its ``page_folders``: one walk shows both."""

    # ---- marks, which a rebuilt database reads

    @abc.abstractmethod
    def mark(self, job_id: str, name: str) -> None:
        """Leave a mark; nothing if there is no such job."""

    @abc.abstractmethod
    def marks(self, job_id: str) -> set[str]: ...

    @abc.abstractmethod
    def has_mark(self, job_id: str, name: str) -> bool: ...

    @abc.abstractmethod
    def forget_mark(self, job_id: str, name: str) -> None: ...

    def mark_cancelled(self, job_id: str) -> None:
        self.mark(job_id, CANCELLED)

    def cancelled(self, job_id: str) -> bool:
        return self.has_mark(job_id, CANCELLED)

    def mark_unsure(self, job_id: str) -> None:
        """Mark the job as valid only if it has a row."""
        self.mark(job_id, UNSURE)

    def unsure(self, job_id: str) -> bool:
        return self.has_mark(job_id, UNSURE)

    def forget_unsure(self, job_id: str) -> None:
        self.forget_mark(job_id, UNSURE)

    def mark_told(self, job_id: str, event: str) -> None:
        """The job's callback of this event is over."""
        self.mark(job_id, f"{TOLD}{event}")

    def forget_told(self, job_id: str) -> None:
        """The job has begun again."""
        for name in self.marks(job_id):
            if name.startswith(TOLD):
                self.forget_mark(job_id, name)

    def submission(self, job_id: str) -> dict[str, Any]:
        """The submission, with ``cancelled`` and the events that were ``told``."""
        try:
            marks = self.marks(job_id)
            content = self.read_submission(job_id)
            if content is None:
                raise FileNotFoundError("it is missing")
            told = [name.removeprefix(TOLD) for name in marks if name.startswith(TOLD)]
            return json.loads(content) | {"cancelled": self.cancelled(job_id), "told": told}
        except (OSError, ValueError) as exc:
            raise StorageDamaged(f"the submission of job {job_id} cannot be read ({exc})") from exc

    # ---- pages

    def keep_page(
        self, job_id: str, number: int, page: dict[str, Any], files: dict[str, bytes]
    ) -> tuple[str, str, int]:
        """Write a finished page with its further ``files``.

        Returns the folder's name, the SHA-256 of ``page.json`` (which has the SHA-256 of each further file), and the
        bytes of all files.
        """
        name = f"{number:06d}-{secrets.token_hex(8)}"
        stored = page | {FILES: {name: hashlib.sha256(files[name]).hexdigest() for name in sorted(files)}}
        content = _content(stored)
        self.write_page(job_id, name, files, content)
        return name, hashlib.sha256(content).hexdigest(), size_of(stored, files)

    @abc.abstractmethod
    def write_page(self, job_id: str, folder: str, files: dict[str, bytes], page: bytes) -> None: ...

    @abc.abstractmethod
    def read_page_file(self, job_id: str, folder: str, name: str) -> bytes:
        """Raises OSError."""

    def page(self, job_id: str, folder: str, sha256: str | None) -> dict[str, Any]:
        """``page.json`` of a finished page, checked against ``sha256`` unless that is None. Raises StorageDamaged."""
        return self.checked_page(job_id, folder, sha256)[0]

    def checked_page(self, job_id: str, folder: str, sha256: str | None) -> tuple[dict[str, Any], str]:
        """The page, and the SHA-256 of ``page.json``."""
        with _readable(folder):
            content = self.read_page_file(job_id, folder, PAGE_FILE)
            found = hashlib.sha256(content).hexdigest()
            if sha256 not in (None, found):
                raise StorageDamaged(f"the stored page {folder} is not what was written; it can be retried")
            return json.loads(content), found

    def read_page(self, job_id: str, folder: str, sha256: str | None) -> tuple[dict[str, Any], dict[str, bytes]]:
        """A finished page with its further files, all checked. Raises StorageDamaged."""
        page = self.page(job_id, folder, sha256)
        with _readable(folder):
            return page, {name: self._checked_file(job_id, folder, page, name) for name in page[FILES]}

    def page_file(self, job_id: str, folder: str, sha256: str | None, name: str) -> bytes:
        """One further file of a finished page, checked. Raises StorageDamaged; FileNotFoundError if it has none of the
        name."""
        page = self.page(job_id, folder, sha256)
        if name not in page[FILES]:
            raise FileNotFoundError(name)
        with _readable(folder):
            return self._checked_file(job_id, folder, page, name)

    def _checked_file(self, job_id: str, folder: str, page: dict[str, Any], name: str) -> bytes:
        content = self.read_page_file(job_id, folder, name)
        _check(folder, page, name, hashlib.sha256(content).hexdigest())
        return content

    @staticmethod
    def check_copies(folder: str, page: dict[str, Any], copies: dict[str, Path]) -> None:
        """Compare a page's further files on the local disk with ``page``. Raises StorageDamaged."""
        for name in page[FILES]:
            try:
                with open(copies[name], "rb") as file:
                    found = hashlib.file_digest(file, "sha256").hexdigest()
            except (KeyError, OSError):
                raise StorageDamaged(f"the stored page {folder} lacks {name}; it can be retried") from None
            _check(folder, page, name, found)

    @abc.abstractmethod
    def pictures(self) -> AbstractContextManager[Pictures]:
        """Looks up the files of pages, which stay on the local disk as long as the context."""

    @abc.abstractmethod
    def page_folders(self, job_id: str) -> dict[int, list[str]]:
        """Page number -> names of the finished folders, oldest first."""

    @abc.abstractmethod
    def has_page(self, job_id: str, folder: str) -> bool:
        """Exact, even if a listing does not show the page yet."""

    @abc.abstractmethod
    def page_changed(self, job_id: str, folder: str) -> float:
        """When the page was written, in seconds since the epoch; infinite if it is gone."""

    @abc.abstractmethod
    def remove_page(self, job_id: str, folder: str) -> None: ...


def size_of(page: dict[str, Any], files: dict[str, bytes]) -> int:
    """Bytes that a page takes where it is stored."""
    return len(_content(page)) + sum(map(len, files.values()))


def _content(page: dict[str, Any]) -> bytes:
    return json.dumps(page, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def by_number(folders: Iterator[str]) -> dict[int, list[str]]:
    """Page number -> names of its folders, in the given order. Other names are left out."""
    found: dict[int, list[str]] = {}
    for name in folders:
        if match := PAGE_FOLDER.fullmatch(name):
            found.setdefault(int(match[1]), []).append(name)
    return found


@contextlib.contextmanager
def _readable(folder: str) -> Iterator[None]:
    """Turns what reading a stored page raises into StorageDamaged."""
    try:
        yield
    except (OSError, ValueError) as exc:
        raise StorageDamaged(f"the stored page {folder} cannot be read ({exc}); it can be retried") from exc


def _check(folder: str, page: dict[str, Any], name: str, found: str) -> None:
    if page[FILES][name] != found:
        raise StorageDamaged(f"{name} of the stored page {folder} is not what was written; it can be retried")
