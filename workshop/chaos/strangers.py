# SPDX-License-Identifier: Apache-2.0
"""Clients that nobody would want: some send hostile documents, some leave in the middle."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import random
import socket
import threading
from collections import Counter
from typing import Any

from chaos import hostile
from chaos.documents import Document
from chaos.http_client import Away, ask, connected, form, raw
from chaos.jobs import FORMATS, JOBS, Job, JobClient, look, submit
from chaos.journal import Journal

# A server's faults that say "not now": the service is away or full, or the document took too long.
ALLOWED = (503, 504, 507)
NOT_MET = ("no answer", "429", "503", "507")
HOSTILE_OUTSTANDING = 2
PATIENCE_S = 45.0


class Hostile(threading.Thread):
    """Sends hostile documents to every interface. It wants a status below 500, or one of ALLOWED; its accepted jobs
    must end, one way or the other."""

    def __init__(self, url: str, batch: str, seed: int, journal: Journal, stop: threading.Event) -> None:
        super().__init__(name="hostile", daemon=True)
        self.jobs: list[Job] = []
        self.answers: Counter[tuple[str, str]] = Counter()
        self.batch = batch
        self._url, self._seed, self._journal, self._stopped = url, seed, journal, stop
        self._chance = random.Random(f"hostile-{seed}")

    def run(self) -> None:
        number = 0
        while not self._stopped.is_set():
            kind, content = hostile.document(self._seed, number)
            status = self._send(number, content)
            self.answers[kind, status] += 1
            self._journal.note("hostile", kind=kind, bytes=len(content), status=status)
            # A document that found nobody has shown nothing: it is sent again.
            number += status not in NOT_MET
            self._stopped.wait(self._chance.uniform(0.5, 3))

    def _send(self, number: int, content: bytes) -> str:
        for job in self.jobs:
            if not job.ended:
                look(self._url, job, self._journal)
        waiting = sum(not job.ended for job in self.jobs)
        way = self._chance.choice(["parse", "layout", "job"])
        try:
            if way == "job" and waiting < HOSTILE_OUTSTANDING:
                key = f"{self.batch}-{number}"
                answer = submit(self._url, "a.bin", content, self.batch, key)
                if answer.status == 200:
                    job = Job(answer.json()["data"]["jobId"], None, key, self._journal.now())
                    self.jobs.append(job)
            elif way == "parse":
                body, headers = form({}, ("a.bin", content))
                path = f"/parse?format={self._chance.choice(FORMATS)}"
                answer = ask(self._url, "POST", path, body, headers, PATIENCE_S)
            else:
                body = json.dumps({"file": base64.b64encode(content).decode()}).encode()
                headers = {"Content-Type": "application/json"}
                answer = ask(self._url, "POST", "/layout-parsing", body, headers, PATIENCE_S)
        except Away as error:
            return "left" if "timed out" in str(error) else "no answer"
        if answer.status >= 500 and answer.status not in ALLOWED:
            words = f"hostile document {number} ({way}): {answer.status} {answer.body[:300]!r}"
            self._journal.violation("status", words)
        return str(answer.status)


class Leavers(threading.Thread):
    """Clients that go away: in the middle of an upload, before their answer, in the middle of it, and in the middle of
    a job's events."""

    def __init__(
        self, url: str, documents: list[Document], jobs: JobClient, seed: int, journal: Journal, stop: threading.Event
    ) -> None:
        super().__init__(name="leavers", daemon=True)
        self.left: Counter[str] = Counter()
        self._url, self._documents, self._jobs, self._journal, self._stopped = url, documents, jobs, journal, stop
        self._chance = random.Random(f"leavers-{seed}")

    def run(self) -> None:
        ways = (self.in_upload, self.before_the_answer, self.in_the_answer, self.in_the_events, self.in_the_head)
        while not self._stopped.is_set():
            way = self._chance.choice(ways)
            # A server that ends in the middle of an answer leaves these clients as they leave it.
            with contextlib.suppress(OSError, http.client.HTTPException, Away):
                way()
                self.left[way.__name__] += 1
            self._stopped.wait(self._chance.uniform(0.5, 3))

    def _request(self) -> bytes:
        document = self._chance.choice(self._documents)
        body, headers = form({}, (document.name, document.path.read_bytes()))
        head = f"POST /parse HTTP/1.1\r\nHost: a\r\nContent-Type: {headers['Content-Type']}\r\n"
        return head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body

    def _close(self, connection: socket.socket) -> None:
        """With FIN, or with RST."""
        if self._chance.random() < 0.5:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        connection.close()

    def _send(self, data: bytes, wait_s: float, read: int = 0) -> None:
        connection = raw(self._url, 20)
        try:
            connection.sendall(data)
            self._stopped.wait(wait_s)
            if read:
                connection.recv(read)
        finally:
            self._close(connection)

    def in_the_head(self) -> None:
        self._send(self._request()[: self._chance.randrange(1, 40)], self._chance.uniform(0, 5))

    def in_upload(self) -> None:
        request = self._request()
        self._send(request[: self._chance.randrange(200, len(request))], self._chance.uniform(0, 5))

    def before_the_answer(self) -> None:
        self._send(self._request(), self._chance.uniform(0, 4))

    def in_the_answer(self) -> None:
        self._send(self._request(), 0, read=self._chance.choice([1, 100]))

    def in_the_events(self) -> None:
        jobs = list(self._jobs.jobs)
        if not jobs:
            return
        job = self._chance.choice(jobs[-8:])
        with connected(self._url, 20) as connection:
            last: dict[str, Any] = {"Last-Event-ID": str(self._chance.randrange(-1, 50))}
            connection.request("GET", f"{JOBS}/{job.id}/events", headers=last if self._chance.random() < 0.5 else {})
            answer = connection.getresponse()
            if answer.status >= 500 and answer.status not in ALLOWED:
                self._journal.violation("status", f"events of job {job.id}: {answer.status} {answer.read()[:300]!r}")
            answer.read(self._chance.choice([1, 200, 2000]))
