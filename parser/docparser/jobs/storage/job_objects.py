# SPDX-License-Identifier: Apache-2.0
"""The files of jobs as objects of a bucket. A bucket cannot rename, so the object that is written last makes the others
count.

    <prefix>/submissions/<job id>              enough to rebuild the job's row; with it the job is there
             removed/<job id>                  the same of a job that is being removed
             jobs/<job id>/document            as the client sent it
                           marks/<name>        it was cancelled; its callback of an end is over; it is unsure
                           pages/000007-1f2e/  a page: page.json, with which it is finished, and its pictures
             place.id, links.key               of all parsers over this place

Some servers list an object later than they have it. So an object that must be there is asked for by its name, and never
counts as lost because a listing lacks it.
"""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from docparser.errors import StorageUnavailable
from docparser.jobs.storage.files import FILES, JOB_ID, PAGE_FILE, JobFiles, Pictures, by_number
from docparser.jobs.storage.local_copies import BucketFiles, Copies
from docparser.s3 import SETTING, Bucket, Entry

SUBMISSIONS, REMOVED, JOBS = "submissions/", "removed/", "jobs/"
NEVER = float("inf")


class JobObjects(JobFiles):
    def __init__(self, url: str, copies: Path | None) -> None:
        """``copies``: the folder for copies of documents and pictures; None for the system's. Raises NotReady."""
        self._bucket = Bucket(url)
        self._copies = Copies(self._bucket, copies)
        self.storage = f"{SETTING}: {self._bucket.url}"
        self.small = BucketFiles(self._bucket)

    @property
    def failure(self) -> str:
        return self._bucket.failure

    def check(self) -> None:
        if self.failure:
            raise StorageUnavailable(self.failure)

    def check_room(self) -> None:
        self.check()

    def probe(self) -> None:
        self._bucket.probe()

    def close(self) -> None:
        self._copies.close()

    def keep_submission(self, job_id: str, document: BinaryIO, submission: dict[str, Any]) -> int:
        content = json.dumps(submission, ensure_ascii=False).encode()
        begin = document.tell()
        size = document.seek(0, 2) - begin
        document.seek(begin)
        self._bucket.put(_document(job_id), document)
        self._bucket.put(SUBMISSIONS + job_id, content)
        return size + len(content)

    def read_submission(self, job_id: str) -> bytes | None:
        return self._bucket.get(SUBMISSIONS + job_id)

    def document(self, job_id: str) -> contextlib.AbstractContextManager[Path]:
        return self._copies.of(_document(job_id))

    def has_document(self, job_id: str) -> bool:
        return self.exists(job_id) and self._bucket.entry(_document(job_id)) is not None

    def exists(self, job_id: str) -> bool:
        return self._bucket.entry(SUBMISSIONS + job_id) is not None

    def job_ids(self) -> set[str]:
        return {name for name in self._names(SUBMISSIONS) if JOB_ID.fullmatch(name)}

    def changed(self, job_id: str) -> float:
        found = self._bucket.entry(SUBMISSIONS + job_id)
        return found.changed if found else NEVER

    def size(self, job_id: str) -> int:
        return sum(found.size for found in self._bucket.entries(_job(job_id)))

    def hide(self, job_id: str) -> str | None:
        content = self.read_submission(job_id)
        if content is None:
            return None
        self._bucket.put(REMOVED + job_id, content)
        self._bucket.delete(SUBMISSIONS + job_id)
        return job_id

    def show(self, job_id: str, hidden: str) -> None:
        content = self._bucket.get(REMOVED + hidden)
        if content is not None:
            self._bucket.put(SUBMISSIONS + job_id, content)
            self._bucket.delete(REMOVED + hidden)

    def remove_hidden(self, hidden: str) -> None:
        """If the bucket goes away meanwhile, ``clean`` removes the rest."""
        self._copies.forget(_job(hidden))
        with contextlib.suppress(StorageUnavailable):
            self._bucket.delete_all(_job(hidden))
            self._bucket.delete(REMOVED + hidden)

    def removed(self) -> set[str]:
        return {name for name in self._names(REMOVED) if JOB_ID.fullmatch(name)}

    def clean(self, before: float) -> Iterator[tuple[str, dict[int, list[str]]]]:
        """Broken submissions, unfinished removals and pages without page.json, of other parsers too. All objects are
        listed together: a listing for each of many thousand jobs takes minutes."""
        removed, there = self.removed(), self.job_ids()
        for job_id in there & removed:  # hiding or showing broke off
            self._bucket.delete(REMOVED + job_id)
        for job_id, objects in itertools.groupby(self._bucket.entries(JOBS), lambda entry: entry.key.split("/")[1]):
            found = list(objects)
            removed.discard(job_id)
            if job_id in there:
                self._remove_half_pages(job_id, found, before)
                yield job_id, _page_folders(job_id, found)
            elif all(entry.changed < before for entry in found) and not self.exists(job_id):
                self.remove_hidden(job_id)
        for job_id in removed - there:  # nothing else is left of them
            if not self.exists(job_id):
                self.remove_hidden(job_id)

    def _remove_half_pages(self, job_id: str, found: list[Entry], before: float) -> None:
        whole = {entry.key.rpartition("/")[0] for entry in found if entry.key.endswith(f"/{PAGE_FILE}")}
        pages = f"{_job(job_id)}pages/"
        for entry in found:
            folder = entry.key.rpartition("/")[0]
            if entry.key.startswith(pages) and folder not in whole and entry.changed < before:
                if self.has_page(job_id, folder.removeprefix(pages)):  # it is not listed
                    whole.add(folder)
                else:
                    self._bucket.delete(entry.key)

    def mark(self, job_id: str, name: str) -> None:
        if self.exists(job_id):
            self._bucket.put(f"{_job(job_id)}marks/{name}", b"")

    def marks(self, job_id: str) -> set[str]:
        return set(self._names(f"{_job(job_id)}marks/"))

    def has_mark(self, job_id: str, name: str) -> bool:
        return self._bucket.get(f"{_job(job_id)}marks/{name}") is not None

    def forget_mark(self, job_id: str, name: str) -> None:
        self._bucket.delete(f"{_job(job_id)}marks/{name}")

    def write_page(self, job_id: str, folder: str, files: dict[str, bytes], page: bytes) -> None:
        for name, data in files.items():
            self._bucket.put(f"{_page(job_id, folder)}{name}", data)
        self._bucket.put(f"{_page(job_id, folder)}{PAGE_FILE}", page)

    def read_page_file(self, job_id: str, folder: str, name: str) -> bytes:
        content = self._bucket.get(f"{_page(job_id, folder)}{name}")
        if content is None:
            raise FileNotFoundError(f"{name} is missing")
        return content

    @contextlib.contextmanager
    def pictures(self) -> Iterator[Pictures]:
        """Copies of them."""
        with self._copies.passing() as copies:

            def of(job_id: str, folder: str) -> dict[str, Path]:
                found = {}
                target = copies / job_id / folder
                names: Iterable[str] = ()
                with contextlib.suppress(OSError, ValueError):  # reading page.json reports the damage
                    names = json.loads(self.read_page_file(job_id, folder, PAGE_FILE))[FILES]
                for name in names:
                    if self._copies.download(f"{_page(job_id, folder)}{name}", target / name):
                        found[name] = target / name
                return found

            yield of

    def page_folders(self, job_id: str) -> dict[int, list[str]]:
        return _page_folders(job_id, self._bucket.entries(f"{_job(job_id)}pages/"))

    def has_page(self, job_id: str, folder: str) -> bool:
        return self._bucket.entry(f"{_page(job_id, folder)}{PAGE_FILE}") is not None

    def page_changed(self, job_id: str, folder: str) -> float:
        found = self._bucket.entry(f"{_page(job_id, folder)}{PAGE_FILE}")
        return found.changed if found else NEVER

    def remove_page(self, job_id: str, folder: str) -> None:
        """page.json first: without it the page does not count."""
        with contextlib.suppress(StorageUnavailable):
            self._bucket.delete(f"{_page(job_id, folder)}{PAGE_FILE}")
            self._bucket.delete_all(_page(job_id, folder))

    def _names(self, prefix: str) -> list[str]:
        return [entry.key[len(prefix) :] for entry in self._bucket.entries(prefix)]


def _job(job_id: str) -> str:
    return f"{JOBS}{job_id}/"


def _document(job_id: str) -> str:
    return f"{_job(job_id)}document"


def _page(job_id: str, folder: str) -> str:
    return f"{_job(job_id)}pages/{folder}/"


def _page_folders(job_id: str, objects: Iterable[Entry]) -> dict[int, list[str]]:
    """The finished pages among the objects of a job."""
    prefix = f"{_job(job_id)}pages/"
    found = [entry for entry in objects if entry.key.startswith(prefix) and entry.key.endswith(f"/{PAGE_FILE}")]
    found.sort(key=lambda entry: entry.changed)
    return by_number(entry.key[len(prefix) :].partition("/")[0] for entry in found)
