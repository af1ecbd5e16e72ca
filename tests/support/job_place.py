# SPDX-License-Identifier: Apache-2.0
"""The job store without a service: one service process's view of a data directory."""

from __future__ import annotations

import io
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from docparser.jobs.storage import backend, repair
from docparser.jobs.storage.backend import open_files
from docparser.jobs.storage.data_folder import Processes
from docparser.jobs.storage.job_folders import JobFolders
from docparser.jobs.storage.queue import Claim, PageRecord, StepQueue
from docparser.jobs.storage.retention import Retention
from docparser.jobs.storage.states import OPENING, Job, JobState
from docparser.jobs.storage.store import JobStore, QueueLimits

DATABASES = ("sqlite", "postgresql")
PICTURE = {"a.jpg": b"x"}
# What is stored of a page of which nothing was read, beside its number.
NOTHING_READ: dict[str, Any] = {"width": 1, "height": 2, "models": {}, "entry": {}, "block_notes": [], "page_notes": []}
# For a test that uses conftest's `open_place` and whose files matter, not only its rows.
in_a_bucket_too = pytest.mark.parametrize("open_place", [*DATABASES, "postgresql, bucket"], indirect=True)


class Place:
    """One service process's view of a data directory, of PostgreSQL if there is a ``url``, and of a bucket if there is
    a ``storage``."""

    def __init__(self, root: Path, pages: int = 1000, jobs: int = 1000, *, url: str = "", storage: str = "") -> None:
        self.root = root
        self.files: Any = open_files(root, 0, storage, root)  # tests look inside
        self.database: Any  # tests look inside
        self.processes: Any
        if url:
            opened = backend.open_postgres(url, self.files, grace_s=0.0)
            self.database, self.processes = opened.database, opened.processes
        else:
            assert isinstance(self.files, JobFolders)
            self.database = repair.open_database(self.files)
            self.in_use = repair.mark_in_use(root)
            self.processes = Processes(root / "processes")
        self.store = JobStore(self.database, QueueLimits(pages, jobs))
        self.queue = StepQueue(self.database, self.processes)
        self.lengths: dict[str, int] = {}  # of the documents

    def die(self) -> None:
        """Behave as after kill -9: the lock is released and nothing else is cleaned up."""
        if isinstance(self.processes, Processes):
            self.processes._file.close()
            self.in_use.close()
        else:
            self.processes.close()  # its session ends with it
        self.database.close()

    def submit(
        self,
        pages: int = 1,
        flow: str = "a",
        key: str | None = None,
        fingerprint: str = "f",
        callback: str = "",
        owner: str = "",
        batch_id: str | None = None,
    ) -> str:
        job = Job(
            uuid.uuid4().hex,
            owner,
            flow,
            batch_id,
            "m",
            "a.pdf",
            "PDF",
            {},
            None,
            JobState.PENDING,
            None,
            time.time(),
            None,
            None,
            None,
            None,
            {"url": callback, "base": "http://parser.example"} if callback else None,
        )
        self.lengths[job.id] = pages
        record = {
            name: getattr(job, name)
            for name in (
                "owner",
                "flow",
                "batch_id",
                "model",
                "file_name",
                "format",
                "options",
                "page_ranges",
                "created",
                "callback",
            )
        }
        more = {"fingerprint": fingerprint, "idempotency_key": key}
        self.files.keep_submission(job.id, io.BytesIO(b"%PDF-"), record | more)
        return self.store.insert(job, key=key, fingerprint=fingerprint, size=5)

    def claim(self) -> Claim:
        """The next page; there must be one."""
        claim = self.try_claim()
        assert claim is not None, "no page waits"
        return claim

    def try_claim(self) -> Claim | None:
        """The next page, or None. Opens the documents whose turn comes before it."""
        while (claim := self.queue.claim()) and claim.number == OPENING:
            pages = self.lengths[claim.job.id]
            self.queue.opened(claim, pages, list(range(1, pages + 1)), join=False)
        return claim

    def keep(self, job_id: str, number: int, files: dict[str, bytes] = PICTURE, **members: Any) -> tuple[str, str, int]:
        """Write a page with further ``files``; ``members`` are added to NOTHING_READ. Returns what ``keep_page``
        returns."""
        return self.files.keep_page(job_id, number, {"number": number} | NOTHING_READ | members, files)

    def parse(self, claim: Claim, files: dict[str, bytes] = PICTURE, *, join: bool = False, **members: Any) -> str:
        """The same of a page that was claimed, which is finished then; returns its folder."""
        folder, sha256, size = self.keep(claim.job.id, claim.number, files, **members)
        self.queue.finish(claim, PageRecord(folder, sha256, 1, 2, size), join=join)
        return folder

    def record(self, folder: str, sha256: str = "0" * 64) -> PageRecord:
        return PageRecord(folder, sha256, 1, 2, 3)

    def remove_leftovers(self) -> None:
        Retention(self.database, self.files, age_s=1e6, most_bytes=1 << 40).remove_leftovers(lambda: False)

    def work(self) -> list[tuple[str, int]]:
        """Everything that waits, in the order of its turns: (job, page)."""
        done = []
        while claim := self.try_claim():
            done.append((claim.job.id, claim.number))
            self.parse(claim)
        return done


def places(root: Path, url: str = "", storage: str = "") -> Iterator[Callable[..., Place]]:
    """For a fixture: makes places over one database and one data directory or bucket."""
    opened: list[Place] = []

    def make(**limits: int) -> Place:
        opened.append(Place(root, url=url, storage=storage, **limits))
        return opened[-1]

    yield make
    for place in opened:
        place.die()
