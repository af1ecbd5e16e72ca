# SPDX-License-Identifier: Apache-2.0
"""What jobs have on the disk: one folder each, in which nothing is ever seen half-written.

    <data>/jobs/<job id>/document            as the client sent it
                         submission.json     enough to make the job's row anew
                         pages/000007-1f2e/  one finished page: page.json and its pictures

Everything is written under a name that begins with a dot, flushed to the disk, and renamed: after a crash it is there
as a whole or not at all. The database says afterwards which of it counts; the rest is rubbish that recovery removes.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from docparser.jobs.errors import StorageDamaged, StorageFull

JOB_ID = re.compile(r"[0-9a-f]{32}")
PAGE_FOLDER = re.compile(r"(\d{6})-([0-9a-f]{16})")
CHUNK = 1 << 20
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class JobFiles:
    """Paths and writes. Raises StorageFull when the disk has no room, StorageDamaged for what cannot be read."""

    def __init__(self, root: Path, min_free_mib: int) -> None:
        self.root = root
        self._min_free = min_free_mib << 20
        self.jobs = root / "jobs"
        self.jobs.mkdir(parents=True, exist_ok=True, mode=0o700)

    def check_room(self) -> None:
        """Raises StorageFull before it comes to it, so that the database always has room for what is running."""
        free = shutil.disk_usage(self.root).free
        if free < self._min_free:
            raise StorageFull(
                f"Only {free >> 20} MiB are free in PARSER_DATA_DIR; {self._min_free >> 20} must stay "
                "(PARSER_MIN_FREE_MIB). Jobs wait until there is room; nothing is lost."
            )

    def folder(self, job_id: str) -> Path:
        return self.jobs / job_id

    def document(self, job_id: str) -> Path:
        return self.folder(job_id) / "document"

    def keep_submission(self, job_id: str, document: BinaryIO, submission: dict[str, Any]) -> int:
        """Writes a job's folder; returns its bytes. The folder is there as a whole, or not at all."""
        hidden = self.jobs / f".{job_id}"
        with _named_errors(), _removed_on_error(hidden):
            (hidden / "pages").mkdir(parents=True, mode=0o700)
            size = _write(hidden / "document", _chunks(document))
            size += _write(hidden / "submission.json", [json.dumps(submission, ensure_ascii=False).encode()])
            _flush_folder(hidden)
            hidden.rename(self.folder(job_id))
            _flush_folder(self.jobs)
        return size

    def mark_cancelled(self, job_id: str) -> None:
        """For the case that the database must be made anew from the folders."""
        with _named_errors(), contextlib.suppress(FileNotFoundError, FileExistsError):
            _write(self.folder(job_id) / "cancelled", [])

    def submission(self, job_id: str) -> dict[str, Any]:
        path = self.folder(job_id) / "submission.json"
        try:
            return json.loads(path.read_bytes()) | {"cancelled": (path.parent / "cancelled").exists()}
        except (OSError, ValueError) as exc:
            raise StorageDamaged(f"{path} cannot be read ({exc})") from exc

    def keep_page(
        self, job_id: str, number: int, page: dict[str, Any], files: dict[str, bytes]
    ) -> tuple[str, str, int]:
        """Writes a finished page with its further ``files``; returns its folder's name, the hash of ``page.json`` and
        the bytes of all."""
        name = f"{number:06d}-{secrets.token_hex(8)}"
        pages = self.folder(job_id) / "pages"
        hidden = pages / f".{name}"
        content = json.dumps(page, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
        with _named_errors(), _removed_on_error(hidden):
            hidden.mkdir(mode=0o700)
            size = sum(_write(hidden / file, [data]) for file, data in files.items())
            size += _write(hidden / "page.json", [content])
            _flush_folder(hidden)
            hidden.rename(pages / name)
            _flush_folder(pages)
        return name, hashlib.sha256(content).hexdigest(), size

    def page(self, job_id: str, folder: str, sha256: str | None) -> dict[str, Any]:
        """``page.json`` of a finished page; ``sha256`` None: whatever is there. Raises StorageDamaged."""
        path = self.folder(job_id) / "pages" / folder / "page.json"
        try:
            content = path.read_bytes()
            if sha256 is not None and hashlib.sha256(content).hexdigest() != sha256:
                raise StorageDamaged(f"the stored page {path.parent.name} is not what was written; it can be retried")
            return json.loads(content)
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
        """Out of sight first, so that an interrupted removal leaves no half of a job."""
        hidden = self.jobs / f".{job_id}.removed-{secrets.token_hex(4)}"
        with contextlib.suppress(FileNotFoundError):
            self.folder(job_id).rename(hidden)
            shutil.rmtree(hidden, ignore_errors=True)

    def job_ids(self) -> set[str]:
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
        """What was being written or removed; also what is being written right now."""
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


def _flush_folder(path: Path) -> None:
    """Makes the names in a folder last, as fsync does for a file's content."""
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


@contextlib.contextmanager
def _named_errors() -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        if exc.errno in NO_ROOM:
            raise StorageFull(
                f"PARSER_DATA_DIR has no room left ({exc.strerror}); free some and try again. Nothing of earlier "
                "results is lost."
            ) from exc
        raise
