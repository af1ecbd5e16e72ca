# SPDX-License-Identifier: Apache-2.0
"""One folder for each job, in which no file or folder is ever seen half-written.

    <data>/jobs/<job id>/document            as the client sent it
                         submission.json     enough to rebuild the job's row
                         cancelled, told-*   marks: it was cancelled; its callback of an end is over
                         unsure              mark: its client was told 503, its row may have been written nevertheless
                         pages/000007-1f2e/  one finished page: page.json and its pictures

Everything is written under a name that begins with a dot, flushed to the disk, and renamed.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from docparser.errors import DataDirFull
from docparser.jobs.storage.data_folder import DataFolder, FolderFiles, flush_folder, write_new
from docparser.jobs.storage.files import JOB_ID, PAGE_FILE, JobFiles, Pictures, by_number

REMOVED = ".removed-"
CHUNK = 1 << 20


class JobFolders(DataFolder, JobFiles):
    def __init__(self, root: Path, min_free_mib: int) -> None:
        super().__init__(root)
        self.storage = f"PARSER_DATA_DIR: {root}"
        self.small = FolderFiles(root)
        self._min_free = min_free_mib << 20

    def check_room(self) -> None:
        self.check()
        with self.named_errors():
            free = shutil.disk_usage(self.root).free
        if free < self._min_free:
            raise DataDirFull(
                f"Only {free >> 20} MiB are free in PARSER_DATA_DIR; {self._min_free >> 20} must stay "
                "(PARSER_MIN_FREE_MIB). Jobs wait until there is room; nothing is lost."
            )

    def close(self) -> None:
        pass

    def folder(self, job_id: str) -> Path:
        return self.jobs / job_id

    def page_folder(self, job_id: str, folder: str) -> Path:
        return self.folder(job_id) / "pages" / folder

    def keep_submission(self, job_id: str, document: BinaryIO, submission: dict[str, Any]) -> int:
        hidden = self.jobs / f".{job_id}"
        with self.named_errors(), _removed_on_error(hidden):
            hidden.mkdir(mode=0o700)  # without its parents: if they are missing, something is wrong
            (hidden / "pages").mkdir(mode=0o700)
            size = write_new(hidden / "document", _chunks(document))
            size += write_new(hidden / "submission.json", [json.dumps(submission, ensure_ascii=False).encode()])
            flush_folder(hidden)
            hidden.rename(self.folder(job_id))
            flush_folder(self.jobs)
        return size

    def read_submission(self, job_id: str) -> bytes | None:
        with contextlib.suppress(FileNotFoundError):
            return (self.folder(job_id) / "submission.json").read_bytes()
        return None

    @contextlib.contextmanager
    def document(self, job_id: str) -> Iterator[Path]:
        path = self.folder(job_id) / "document"
        if not path.exists():
            raise FileNotFoundError(path)
        yield path

    def has_document(self, job_id: str) -> bool:
        return (self.folder(job_id) / "document").exists()

    def exists(self, job_id: str) -> bool:
        return self.folder(job_id).exists()

    def job_ids(self) -> set[str]:
        with self.named_errors():
            return {path.name for path in self.jobs.iterdir() if JOB_ID.fullmatch(path.name)}

    def changed(self, job_id: str) -> float:
        return _changed(self.folder(job_id))

    def size(self, job_id: str) -> int:
        """A file that is removed meanwhile counts as 0."""
        size = 0
        for path in self.folder(job_id).rglob("*"):
            with contextlib.suppress(OSError):
                size += path.stat().st_size if path.is_file() else 0
        return size

    def hide(self, job_id: str) -> str | None:
        """Rename the folder; returns its new name."""
        hidden = self.jobs / f".{job_id}{REMOVED}{secrets.token_hex(4)}"
        with self.named_errors():
            try:
                self.folder(job_id).rename(hidden)
            except FileNotFoundError:
                self.check()
                return None
        return hidden.name

    def show(self, job_id: str, hidden: str) -> None:
        with self.named_errors():
            (self.jobs / hidden).rename(self.folder(job_id))

    def remove_hidden(self, hidden: str) -> None:
        shutil.rmtree(self.jobs / hidden, ignore_errors=True)

    def removed(self) -> set[str]:
        names = (path.name[1:].split(REMOVED)[0] for path in self.jobs.glob(f".*{REMOVED}*"))
        return {name for name in names if JOB_ID.fullmatch(name)}

    def clean(self, before: float) -> Iterator[tuple[str, dict[int, list[str]]]]:
        _remove_hidden(self.jobs, before)
        for job_id in self.job_ids():
            _remove_hidden(self.folder(job_id) / "pages", before)
            yield job_id, self.page_folders(job_id)

    def mark(self, job_id: str, name: str) -> None:
        with self.named_errors(), contextlib.suppress(FileNotFoundError, FileExistsError):
            write_new(self.folder(job_id) / name, [])

    def marks(self, job_id: str) -> set[str]:
        with contextlib.suppress(FileNotFoundError):
            return {path.name for path in self.folder(job_id).iterdir()} - {"document", "submission.json", "pages"}
        return set()

    def has_mark(self, job_id: str, name: str) -> bool:
        return (self.folder(job_id) / name).exists()

    def forget_mark(self, job_id: str, name: str) -> None:
        with self.named_errors():
            (self.folder(job_id) / name).unlink(missing_ok=True)

    def write_page(self, job_id: str, folder: str, files: dict[str, bytes], page: bytes) -> None:
        pages = self.folder(job_id) / "pages"
        hidden = pages / f".{folder}"
        with self.named_errors(), _removed_on_error(hidden):
            hidden.mkdir(mode=0o700)
            for name, data in files.items():
                write_new(hidden / name, [data])
            write_new(hidden / PAGE_FILE, [page])
            flush_folder(hidden)
            hidden.rename(pages / folder)
            flush_folder(pages)

    def read_page_file(self, job_id: str, folder: str, name: str) -> bytes:
        return (self.page_folder(job_id, folder) / name).read_bytes()

    @contextlib.contextmanager
    def pictures(self) -> Iterator[Pictures]:
        """The stored files themselves."""

        def of(job_id: str, folder: str) -> dict[str, Path]:
            with contextlib.suppress(OSError):  # reading page.json reports the damage
                return {path.name: path for path in self.page_folder(job_id, folder).iterdir()}
            return {}

        yield of

    def page_folders(self, job_id: str) -> dict[int, list[str]]:
        with contextlib.suppress(FileNotFoundError):
            found = sorted((self.folder(job_id) / "pages").iterdir(), key=lambda path: path.stat().st_mtime_ns)
            return by_number(path.name for path in found)
        return {}

    def has_page(self, job_id: str, folder: str) -> bool:
        return self.page_folder(job_id, folder).exists()

    def page_changed(self, job_id: str, folder: str) -> float:
        return _changed(self.page_folder(job_id, folder))

    def remove_page(self, job_id: str, folder: str) -> None:
        shutil.rmtree(self.page_folder(job_id, folder), ignore_errors=True)


def _remove_hidden(parent: Path, before: float) -> None:
    """Folders in ``parent`` whose writing or removal has not ended, if nothing has changed in them since ``before``."""
    with contextlib.suppress(FileNotFoundError):  # the parent may be removed meanwhile
        for path in [path for path in parent.iterdir() if path.name.startswith(".") and _changed(path) < before]:
            shutil.rmtree(path, ignore_errors=True)


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return float("inf")


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    while data := file.read(CHUNK):
        yield data


@contextlib.contextmanager
def _removed_on_error(path: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        raise
