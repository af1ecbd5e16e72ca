# SPDX-License-Identifier: Apache-2.0
"""A client of the job API: it submits honest documents, knows what was accepted, and wants it back at the end."""

from __future__ import annotations

import json
import random
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from chaos.documents import Document
from chaos.http_client import Answer, Away, ask, form
from chaos.journal import Journal

JOBS = "/api/v2/ocr/jobs"
OUTSTANDING = 3
PAUSE_S = 1.0
FORMATS = ("md", "json", "html", "xlsx", "docx", "pdf", "chunks", "zip")
# Answers to an honest submission that mean "come back": the queue or the disk is full, or the service cannot work now.
COME_BACK = (429, 503, 507)


@dataclass
class Job:
    """An accepted job: the service answered with its id. `state` is what was last seen of it, "lost" after a 404.
    `lost_s` is when the service first said that there is no such job."""

    id: str
    document: Document | None
    key: str
    accepted_s: float
    state: dict[str, Any] = field(default_factory=dict)
    ended_s: float | None = None
    lost_s: float | None = None

    @property
    def ended(self) -> bool:
        """Whether nothing more will come of it."""
        return self.state.get("state") in ("done", "failed", "lost")


def submit(url: str, name: str, content: bytes, batch: str, key: str) -> Answer:
    fields = {"model": "PaddleOCR-VL", "batchId": batch, "optionalPayload": json.dumps({"visualize": False})}
    body, headers = form(fields, (name, content))
    return ask(url, "POST", JOBS, body, {**headers, "Idempotency-Key": key})


def look(url: str, job: Job, journal: Journal) -> None:
    """Ask for a job's state. A refusal that says "later" leaves it as it was seen last."""
    try:
        answer = ask(url, "GET", f"{JOBS}/{job.id}", timeout=20)
    except Away:
        return
    if answer.status == 200:
        job.state = answer.json()["data"]
        if job.ended and job.ended_s is None:
            job.ended_s = journal.now()
    elif answer.status == 404:
        job.state = {"state": "lost"}
        if job.lost_s is None:
            job.lost_s = journal.now()
            journal.note("lost", job=job.id)
    elif answer.status not in COME_BACK:
        journal.violation("status", f"GET of job {job.id}: {answer.status} {answer.body[:200]!r}")


class JobClient(threading.Thread):
    """Keeps a few jobs outstanding until `stop` is set; then only makes sure of its last submission.

    Each submission has an Idempotency-Key and is repeated until its fate is known, as a careful client does. Now and
    then it repeats an accepted one, which must give the same job.
    """

    def __init__(
        self, url: str, batch: str, documents: list[Document], seed: int, journal: Journal, stop: threading.Event
    ) -> None:
        super().__init__(name=batch, daemon=True)
        self.jobs: list[Job] = []
        self.answers: dict[str, int] = {}
        self.unknown: str | None = None
        self.batch = batch
        self._url, self._documents, self._journal, self._stopped = url, documents, journal, stop
        self._chance = random.Random(f"{batch}-{seed}")

    def run(self) -> None:
        number = 0
        while not self._stopped.is_set():
            for job in [job for job in self.jobs if not job.ended]:
                look(self._url, job, self._journal)
            if sum(not job.ended for job in self.jobs) >= OUTSTANDING:
                self._stopped.wait(PAUSE_S)
                continue
            self._submit(self._chance.choice(self._documents), f"{self.batch}-{number}")
            number += 1
            if self.jobs and self._chance.random() < 0.2:
                self._repeat(self._chance.choice(self.jobs))
            if self.jobs and self._chance.random() < 0.4:
                self._convert(self._chance.choice(self.jobs))

    def _send(self, document: Document, key: str) -> Answer | None:
        """The answer to a submission; None where nobody answered."""
        try:
            answer = submit(self._url, document.name, document.path.read_bytes(), self.batch, key)
        except Away:
            self._count("no answer")
            return None
        self._count(str(answer.status))
        return answer

    def _count(self, what: str) -> None:
        self.answers[what] = self.answers.get(what, 0) + 1

    def _submit(self, document: Document, key: str, patience_s: float = 600) -> None:
        """Until it is accepted or refused; also after the end of the trouble, when it must be answered soon."""
        self.unknown, deadline = key, time.monotonic() + patience_s
        while time.monotonic() < deadline:
            answer = self._send(document, key)
            if answer is not None and answer.status == 200:
                job = Job(answer.json()["data"]["jobId"], document, key, self._journal.now())
                self.jobs.append(job)
                self.unknown = None
                self._journal.note("accepted", job=job.id, document=document.name, batch=self.batch)
                return
            if answer is not None and answer.status not in COME_BACK:
                words = f"{document.name} as a job: {answer.status} {answer.body[:300]!r}"
                self._journal.violation("honest document refused", words)
                self.unknown = None
                return
            time.sleep(answer.retry_after_s if answer is not None else PAUSE_S)

    def _repeat(self, job: Job) -> None:
        assert job.document is not None, "this client's jobs are of honest documents"
        answer = self._send(job.document, job.key)
        if answer is not None and answer.status == 200 and (again := answer.json()["data"]["jobId"]) != job.id:
            self._journal.violation("job doubled", f"Idempotency-Key {job.key}: {job.id}, and again {again}")

    def _convert(self, job: Job) -> None:
        """Fetch a result in some format: texts that a lying VLM made up are converted, too."""
        path = f"{JOBS}/{job.id}/result?format={self._chance.choice(FORMATS)}"
        try:
            answer = ask(self._url, "GET", path, timeout=30)
        except Away:
            return
        if answer.status >= 500 and answer.status not in COME_BACK:
            self._journal.violation("status", f"GET {path}: {answer.status} {answer.body[:200]!r}")
