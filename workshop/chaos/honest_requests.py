# SPDX-License-Identifier: Apache-2.0
"""A client of `/layout-parsing`: honest documents, one after the other; each answer is compared with the undisturbed
reading."""

from __future__ import annotations

import base64
import json
import random
import threading
from dataclasses import dataclass
from typing import Any

from chaos.documents import Document, Readings
from chaos.http_client import Answer, Away, ask
from chaos.journal import Journal

TIMEOUT_S = 180.0
# Answers to an honest request that say "not now" or "took too long", as the API's table of errors has them.
SAID = (429, 503, 504, 507)


@dataclass(frozen=True)
class Served:
    """A request that was answered with pages."""

    document: Document
    begin_s: float
    end_s: float
    result: dict[str, Any]


@dataclass(frozen=True)
class Refused:
    """A request that was answered with a status that does not say "later"."""

    document: Document
    begin_s: float
    end_s: float
    status: int
    words: str


def parse(url: str, document: Document, timeout: float = TIMEOUT_S) -> Answer:
    body = {
        "file": base64.b64encode(document.path.read_bytes()).decode(),
        "fileType": document.file_type,
        "visualize": False,
    }
    headers = {"Content-Type": "application/json"}
    return ask(url, "POST", "/layout-parsing", json.dumps(body).encode(), headers, timeout)


def read_undisturbed(url: str, documents: list[Document], readings: Readings, rounds: int) -> None:
    """Read every document alone, then all at once `rounds` times. Raises Away, or ValueError for a bad answer."""
    problems: list[str] = []

    def read(document: Document) -> None:
        try:
            answer = parse(url, document, 600)
            result = answer.json().get("result") or {}
            if answer.status != 200 or (result.get("docparser") or {}).get("partial"):
                problems.append(f"{document.name}: {answer.status} {answer.body[:300]!r}")
            else:
                readings.add(document.name, result["layoutParsingResults"])
        except Away as error:
            problems.append(f"{document.name}: {error}")

    for document in documents:
        read(document)
    for _ in range(rounds):
        threads = [threading.Thread(target=read, args=(document,)) for document in documents]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if problems:
        raise ValueError(f"an honest document is not read even without trouble: {'; '.join(problems)}")


class RequestClient(threading.Thread):
    """Sends documents until `stop` is set; a refusal that says "later" is tried again later."""

    def __init__(self, url: str, documents: list[Document], seed: int, journal: Journal, stop: threading.Event) -> None:
        super().__init__(name="requests", daemon=True)
        self.served: list[Served] = []
        self.refused: list[Refused] = []
        self.answers: dict[str, int] = {}
        self._url, self._documents, self._journal, self._stopped = url, documents, journal, stop
        self._chance = random.Random(f"requests-{seed}")

    def run(self) -> None:
        while not self._stopped.is_set():
            self._one(self._chance.choice(self._documents))

    def _one(self, document: Document) -> None:
        began = self._journal.now()
        try:
            answer = parse(self._url, document)
        except Away:
            self._count("no answer")
            self._stopped.wait(1)
            return
        self._count(str(answer.status))
        if answer.status == 200:
            self.served.append(Served(document, began, self._journal.now(), answer.json()["result"]))
        elif answer.status in SAID:
            self._journal.note("refused", document=document.name, status=answer.status, words=answer.body[:300])
            self._stopped.wait(answer.retry_after_s)
        else:
            words = answer.body[:300].decode(errors="replace")
            self.refused.append(Refused(document, began, self._journal.now(), answer.status, words))
            self._journal.note("refused", document=document.name, status=answer.status, words=words)
            self._stopped.wait(1)

    def _count(self, what: str) -> None:
        self.answers[what] = self.answers.get(what, 0) + 1
