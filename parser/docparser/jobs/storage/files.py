# SPDX-License-Identifier: Apache-2.0
"""The files of jobs: one folder for each, in which no file or folder is ever seen half-written.

    <data>/jobs/<job id>/document            as the client sent it
                         submission.json     enough to rebuild the job's row
                         cancelled, told-*   marks: it was cancelled; its callback of an end is over
                         unsure              mark: its client was told 503, its row may have been written nevertheless
                         pages/000007-1f2e/  one finished page: page.json and its pictures

Everything is written under a name that begins with a dot, flushed to the disk, and renamed: after a crash it is there
as a whole or not at all. The database refers to what counts; repair removes the rest.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from docparser.errors import DataDirFull, StorageDamaged
from docparser.jobs.storage.folder import DataFolder

JOB_ID = re.compile(r"[0-9a-f]{32}")
PAGE_FOLDER = re.compile(r"(\d{6})-([0-9a-f]{16})")
REMOVED = ".removed-"
TOLD = "told-"
UNSURE = "unsure"
CHUNK = 1 << 20


class JobFiles:
    """Paths, writes and reads.

    Raises DataDirFull when the disk has no room, StorageUnavailable when the directory cannot be used, StorageDamaged
    for an unreadable file.
    """

    def __init__(self, root: Path, min_free_mib: int) -> None:
        self.data = DataFolder(root)
        self.root, self.jobs = root, self.data.jobs
        self._min_free = min_free_mib << 20

    def check_room(self) -> None:
        """Raises StorageUnavailable; and DataDirFull early, so that the database always has room for the running
        steps."""
        self.data.check()
        with self.data.named_errors():
            free = shutil.disk_usage(self.root).free
        if free < self._min_free:
            raise DataDirFull(
                f"Only {free >> 20} MiB are free in PARSER_DATA_DIR; {self._min_free >> 20} must stay "
                "(PARSER_MIN_FREE_MIB). Jobs wait until there is room; nothing is lost."
            )

    def folder(self, job_id: str) -> Path:
        return self.jobs / job_id

    def document(self, job_id: str) -> Path:
        return self.folder(job_id) / "document"

    def keep_submission(self, job_id: str, document: BinaryIO, submission: dict[str, Any]) -> int:
        """Write a job's folder, as a whole or not at all; returns its bytes."""
        hidden = self.jobs / f".{job_id}"
        with self.data.named_errors(), _removed_on_error(hidden):
            hidden.mkdir(mode=0o700)  # not its parents: where they are missing, something is wrong
            (hidden / "pages").mkdir(mode=0o700)
            size = _write(hidden / "document", _chunks(document))
            size += _write(hidden / "submission.json", [json.dumps(submission, ensure_ascii=False).encode()])
            flush_folder(hidden)
            hidden.rename(self.folder(job_id))
            flush_folder(self.jobs)
        return size

    def mark_cancelled(self, job_id: str) -> None:
        """Leave a mark that a rebuilt database reads."""
        with self.data.named_errors(), contextlib.suppress(FileNotFoundError, FileExistsError):
            _write(self.folder(job_id) / "cancelled", [])

    def mark_unsure(self, job_id: str) -> None:
        """Leave a mark that the folder counts only if it has a row."""
        with self.data.named_errors(), contextlib.suppress(FileNotFoundError, FileExistsError):
            _write(self.folder(job_id) / UNSURE, [])

    def unsure(self, job_id: str) -> bool:
        return (self.folder(job_id) / UNSURE).exists()

    def forget_unsure(self, job_id: str) -> None:
        with self.data.named_errors():
            (self.folder(job_id) / UNSURE).unlink(missing_ok=True)

    def mark_told(self, job_id: str, event: str) -> None:
        """Leave a mark, for a rebuilt database, that the job's callback of this event is over."""
        with self.data.named_errors(), contextlib.suppress(FileNotFoundError, FileExistsError):
            _write(self.folder(job_id) / f"{TOLD}{event}", [])

    def forget_told(self, job_id: str) -> None:
        """Remove those marks: the job has begun again."""
        with self.data.named_errors():
            for path in self.folder(job_id).glob(f"{TOLD}*"):
                path.unlink(missing_ok=True)

    def submission(self, job_id: str) -> dict[str, Any]:
        path = self.folder(job_id) / "submission.json"
        try:
            found = {
                "cancelled": (path.parent / "cancelled").exists(),
                "told": [mark.name.removeprefix(TOLD) for mark in path.parent.glob(f"{TOLD}*")],
            }
            return json.loads(path.read_bytes()) | found
        except (OSError, ValueError) as exc:
            raise StorageDamaged(f"{path} cannot be read ({exc})") from exc

    def keep_page(
        self, job_id: str, number: int, page: dict[str, Any], files: dict[str, bytes]
    ) -> tuple[str, str, int]:
        """Write a finished page with its further ``files``.

        Returns the folder's name, the SHA-256 of ``page.json``, and the bytes of all files.
        """
        name = f"{number:06d}-{secrets.token_hex(8)}"
        pages = self.folder(job_id) / "pages"
        hidden = pages / f".{name}"
        content = json.dumps(page, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
        with self.data.named_errors(), _removed_on_error(hidden):
            hidden.mkdir(mode=0o700)
            size = sum(_write(hidden / file, [data]) for file, data in files.items())
            size += _write(hidden / "page.json", [content])
            flush_folder(hidden)
            hidden.rename(pages / name)
            flush_folder(pages)
        return name, hashlib.sha256(content).hexdigest(), size

    def page(self, job_id: str, folder: str, sha256: str | None) -> dict[str, Any]:
        """``page.json`` of a finished page, checked against ``sha256`` unless that is None. Raises StorageDamaged."""
        return self.checked_page(job_id, folder, sha256)[0]

    def checked_page(self, job_id: str, folder: str, sha256: str | None) -> tuple[dict[str, Any], str]:
        """The same, and the SHA-256 that it has."""
        path = self.folder(job_id) / "pages" / folder / "page.json"
        try:
            content = path.read_bytes()
            found = hashlib.sha256(content).hexdigest()
            if sha256 not in (None, found):
                raise StorageDamaged(f"the stored page {path.parent.name} is not what was written; it can be retried")
            return json.loads(content), found
        except (OSError, ValueError) as exc:
            raise StorageDamaged(
                f"the stored page {path.parent.name} cannot be read ({exc}); it can be retried"
            ) from exc

    def read_page(self, job_id: str, folder: str, sha256: str | None) -> tuple[dict[str, Any], dict[str, bytes]]:
        """A finished page with its further files. Raises StorageDamaged."""
        page = self.page(job_id, folder, sha256)
        try:
            paths = self.page_folder(job_id, folder).iterdir()
            return page, {path.name: path.read_bytes() for path in paths if path.name != "page.json"}
        except OSError as exc:
            raise StorageDamaged(f"the stored page {folder} cannot be read ({exc}); it can be retried") from exc

    def page_folder(self, job_id: str, folder: str) -> Path:
        return self.folder(job_id) / "pages" / folder

    def remove_page(self, job_id: str, folder: str) -> None:
        shutil.rmtree(self.page_folder(job_id, folder), ignore_errors=True)

    def remove(self, job_id: str) -> None:
        """Remove a job's folder; renamed first, so that an interrupted removal leaves no half of a job."""
        hidden = self.hide(job_id)
        if hidden is not None:
            shutil.rmtree(hidden, ignore_errors=True)

    def hide(self, job_id: str) -> Path | None:
        """Rename a job's folder so that it counts as removed; returns its new path, None if there is no folder."""
        hidden = self.jobs / f".{job_id}{REMOVED}{secrets.token_hex(4)}"
        with self.data.named_errors():
            try:
                self.folder(job_id).rename(hidden)
            except FileNotFoundError:
                self.data.check()
                return None
        return hidden

    def show(self, job_id: str, hidden: Path) -> None:
        """Undo ``hide``."""
        with self.data.named_errors():
            hidden.rename(self.folder(job_id))

    def removed(self) -> set[str]:
        """Jobs whose folder was hidden and is not gone yet."""
        names = (path.name[1:].split(REMOVED)[0] for path in self.jobs.glob(f".*{REMOVED}*"))
        return {name for name in names if JOB_ID.fullmatch(name)}

    def job_ids(self) -> set[str]:
        with self.data.named_errors():
            return {path.name for path in self.jobs.iterdir() if JOB_ID.fullmatch(path.name)}

    def page_folders(self, job_id: str) -> dict[int, list[str]]:
        """Page number -> names of the finished folders, oldest first."""
        with contextlib.suppress(FileNotFoundError):
            found = sorted((self.folder(job_id) / "pages").iterdir(), key=lambda path: path.stat().st_mtime_ns)
            folders: dict[int, list[str]] = {}
            for path in found:
                if match := PAGE_FOLDER.fullmatch(path.name):
                    folders.setdefault(int(match[1]), []).append(path.name)
            return folders
        return {}

    def hidden(self) -> Iterator[Path]:
        """Folders that are or were being written or removed."""
        yield from self.jobs.glob(".*")
        yield from self.jobs.glob("*/pages/.*")


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    while data := file.read(CHUNK):
        yield data


def _write(path: Path, chunks: Iterator[bytes] | list[bytes]) -> int:
    size = 0
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        for data in chunks:
            size += file.write(data)
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


@contextlib.contextmanager
def _removed_on_error(path: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        raise
