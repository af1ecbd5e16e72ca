# SPDX-License-Identifier: Apache-2.0
"""Callbacks without a service: the real sender over a job store, and a real receiver on loopback."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from pydantic import TypeAdapter

from docparser.clients.audit import AuditLog
from docparser.contract.job_answers import CallbackBody
from docparser.errors import InvalidJob, StorageUnavailable
from docparser.jobs import callback_sender as senders
from docparser.jobs.callback_sender import CallbackMetrics, CallbackSender
from docparser.jobs.links import Links
from docparser.jobs.result import callback_body
from docparser.jobs.storage.callbacks import CallbackQueue, Delivery, Told
from docparser.jobs.storage.data_folder import FolderFiles
from docparser.jobs.storage.retention import remove_job
from docparser.settings import Settings
from tests.support.callback_receiver import SECRET, Receiver
from tests.support.certificates import speak_https
from tests.support.job_place import Place, in_a_bucket_too
from tests.support.system_packages import needs
from tests.support.wait import WAIT_S

pytestmark = pytest.mark.server


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    running = Receiver()
    yield running
    running.close()


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(senders, "POLL_S", 0.02)
    monkeypatch.setattr(senders, "RECLAIM_S", 0.02)


@dataclasses.dataclass
class Service:
    """One process's store and sender."""

    place: Place
    settings: Settings

    def __post_init__(self) -> None:
        self.queue = CallbackQueue(self.place.database, self.place.processes)
        links = Links(FolderFiles(self.place.root), 3600)

        def body(delivery: Delivery) -> bytes:
            return callback_body(delivery, links.path, "")

        metrics = CallbackMetrics(CollectorRegistry())
        self.sender = CallbackSender(self.settings, self.queue, self.place.files, body, AuditLog("off"), metrics)

    def ended(self, callback: str, end: str = "done") -> str:
        """The id of a job that has ended so."""
        job_id = self.place.submit(callback=callback)
        if end == "cancelled":
            self.place.store.cancel(job_id, "")
        elif end == "failed":
            self.place.queue.fail(self.place.claim(), "WorkerLost", "lost", join=False)
        else:
            self.place.work()
        return job_id

    def send_until(self, reached: Callable[[], object]) -> None:
        """Run the sender until ``reached`` holds."""
        asyncio.run(self._send_until(reached))

    async def _send_until(self, reached: Callable[[], object]) -> None:
        self.sender.start()
        try:
            async with asyncio.timeout(WAIT_S):
                while not await asyncio.to_thread(reached):
                    await asyncio.sleep(0.02)
        finally:
            await self.sender.close()

    def told(self, job_id: str) -> Told:
        told = self.queue.told(job_id)
        assert told is not None, "the job has no callback yet"
        return told

    def is_over(self, *jobs: str) -> bool:
        return all(self.told(job_id).state not in ("queued", "sending") for job_id in jobs)

    def has_failed(self, job_id: str) -> bool:
        told = self.told(job_id)
        return told.state == "queued" and told.attempts > 0


Opened = Callable[..., Service]


@pytest.fixture
def service(open_place, receiver: Receiver) -> Opened:
    """Makes services over one store, of each kind of database."""
    return lambda **settings: made(open_place(), receiver, **settings)


def made(place: Place, receiver: Receiver, **settings) -> Service:
    known = {
        "callback_hosts": receiver.hosts,
        "callback_networks": "127.0.0.0/8,::1/128",
        "callback_secrets": SECRET,
        "callback_pause_s": 0.01,
        **settings,
    }
    return Service(place, Settings(**known))


@in_a_bucket_too
def test_each_end_is_told_once(service, receiver):
    here = service()
    jobs = {here.ended(receiver.address("/a"), end): end for end in ("done", "failed", "cancelled")}
    silent = here.ended("")
    here.send_until(lambda: here.is_over(*jobs))
    assert {request.told["data"]["jobId"]: request.told["type"] for request in receiver.at("/a")} == {
        job_id: f"job.{end}" for job_id, end in jobs.items()
    }
    assert here.queue.told(silent) is None

    again = service()  # after a restart
    last = again.ended(receiver.address("/last"))
    again.send_until(lambda: again.is_over(last))
    assert len(receiver.at("/a")) == 3 and len({request.id for request in receiver.received}) == 4


def test_the_body_is_the_jobs_state_without_its_document(service, receiver):
    here = service()
    jobs = [here.ended(receiver.address(f"/{end}"), end) for end in ("done", "cancelled")]
    here.send_until(lambda: here.is_over(*jobs))
    (done,) = (request.told["data"] for request in receiver.at("/done"))
    assert done["state"] == "done" and done["extractProgress"]["extractedPages"] == 1 and "fileName" not in done
    assert done["resultUrl"]["jsonUrl"].startswith(f"http://parser.example/api/v2/ocr/results/{jobs[0]}/")
    (cancelled,) = (request.told["data"] for request in receiver.at("/cancelled"))
    assert cancelled["state"] == "failed" and cancelled["docparser"]["cancelled"] and "resultUrl" not in cancelled
    described = TypeAdapter(CallbackBody)  # leaves out what it does not know
    assert all(described.validate_python(request.told) == request.told for request in receiver.received)


def test_a_callback_that_fails_is_sent_again_with_its_id(service, receiver):
    here = service()
    receiver.answer = lambda path, number: ({1: 500, 2: 404}.get(number, 200), {})
    job_id = here.ended(receiver.address("/a"))
    here.send_until(lambda: here.is_over(job_id))
    assert len(receiver.at("/a")) == 3 and len({request.id for request in receiver.received}) == 1
    told = here.told(job_id)
    assert (told.state, told.attempts, told.status, told.error) == ("delivered", 3, 200, None)


def test_a_receiver_may_ask_for_a_longer_pause(service, receiver):
    here = service()
    receiver.answer = lambda path, number: (429, {"Retry-After": "600"})
    job_id = here.ended(receiver.address("/a"))
    before = time.time()
    here.send_until(lambda: here.has_failed(job_id))
    assert here.told(job_id).not_before >= before + 600


def test_410_ends_it(service, receiver):
    here = service()
    receiver.answer = lambda path, number: (410 if path == "/a" else 204, {})
    job_id = here.ended(receiver.address("/a"))
    here.send_until(lambda: here.is_over(job_id))
    later = here.ended(receiver.address("/later"))
    again = service()
    again.send_until(lambda: again.is_over(later))
    assert (here.told(job_id).state, here.told(job_id).status, len(receiver.at("/a"))) == ("gone", 410, 1)


def test_a_redirect_is_not_followed(service, receiver):
    here = service()
    receiver.answer = lambda path, number: (307, {"Location": receiver.address("/elsewhere")})
    job_id = here.ended(receiver.address("/a"))
    here.send_until(lambda: here.has_failed(job_id))
    assert receiver.at("/a") and not receiver.at("/elsewhere")
    assert here.told(job_id).status == 307 and "answers 307" in str(here.told(job_id).error)


def test_the_status_counts_and_an_endless_answer_is_not_read(service, receiver):
    here = service()
    receiver.answer = lambda path, number: (200, {})
    job_id = here.ended(receiver.address("/endless"))
    here.send_until(lambda: here.is_over(job_id))
    assert here.told(job_id).state == "delivered"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_private_address_is_refused_unless_its_network_is_listed(service, receiver, host):
    here = service(callback_networks="10.0.0.0/8")
    with pytest.raises(InvalidJob, match="not a public address.*PARSER_CALLBACK_NETWORKS"):
        asyncio.run(here.sender.check(receiver.address("/a", host)))
    # The operator may have taken the network away since the submission.
    job_id = service(callback_networks="10.0.0.0/8").ended(receiver.address("/a", host))
    there = service(callback_networks="10.0.0.0/8")
    there.send_until(lambda: there.has_failed(job_id))
    assert "PARSER_CALLBACK_NETWORKS" in str(there.told(job_id).error) and receiver.received == []


def test_a_name_that_leads_elsewhere_after_the_submission_is_refused(service, receiver, monkeypatch):
    """DNS rebinding: a public address when it is checked, a private one when it is sent."""
    here = service(callback_networks="", callback_hosts=f"hooks.example:{receiver.port}")
    found = ["8.8.8.8"]
    real = socket.getaddrinfo

    def getaddrinfo(host, port, *further, **more):
        if host != "hooks.example":  # another's
            return real(host, port, *further, **more)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (found[0], port))]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    address = receiver.address("/a", "hooks.example")
    job_id = here.ended(address)

    async def rebound() -> None:
        await here.sender.check(address)
        found[0] = "127.0.0.1"
        await here._send_until(lambda: here.has_failed(job_id))

    asyncio.run(rebound())
    assert "not a public address" in str(here.told(job_id).error) and receiver.received == []


def test_a_slow_receiver_holds_up_nobody_else(service, receiver):
    here = service(callback_timeout_s=300)
    slow = [here.ended(receiver.address("/slow")) for _ in range(senders.PER_HOST + 2)]
    other = [here.ended(receiver.address("/other", "localhost")) for _ in range(3)]

    def released() -> bool:
        if here.is_over(*other) and receiver.held >= senders.PER_HOST:
            receiver.released.set()
        return here.is_over(*slow)

    here.send_until(released)
    assert receiver.most_held == senders.PER_HOST and len(receiver.at("/slow")) == len(slow)


def test_time_is_bounded_and_what_fails_for_long_is_given_up(service, receiver):
    patient = service(callback_hours=1.0, callback_pause_s=600.0)
    early = patient.ended("http://127.0.0.1:1/")
    patient.send_until(lambda: patient.told(early).error)
    assert patient.told(early).state == "queued", "the next attempt comes within the hour"
    here = service(callback_timeout_s=0.2, callback_hours=1e-9)
    unanswered, away = here.ended(receiver.address("/slow")), here.ended("http://127.0.0.1:1/")
    gone = Settings(**here.settings.model_dump() | {"callback_hosts": f"{receiver.hosts},127.0.0.1:1"})
    there = Service(here.place, gone)
    there.send_until(lambda: there.is_over(unanswered, away))
    for job_id, words in (
        (unanswered, "no answer within 0.2 s (PARSER_CALLBACK_TIMEOUT_S)"),
        (away, "cannot be reached"),
    ):
        told = there.told(job_id)
        assert told.state == "expired" and words in str(told.error)


@needs("openssl")
def test_a_receiver_with_a_certificate_of_its_own(service, receiver, tmp_path: Path):
    """The certificate is named, and passes where the process has it in SSL_CERT_FILE from its start on."""
    certificate = speak_https(receiver, tmp_path)
    address = receiver.address("/a").replace("http:", "https:")
    here = service()
    job_id = here.ended(address)
    here.send_until(lambda: here.told(job_id).error)
    assert "TLS with the URL's host failed" in (error := str(here.told(job_id).error)), error
    assert "self-signed certificate" in error and receiver.received == []
    env = {**os.environ, "SSL_CERT_FILE": str(certificate)}
    done = subprocess.run([sys.executable, "-c", ASK, receiver.hosts, address], env=env, capture_output=True, text=True)
    assert done.stdout == "204\n", done.stderr


ASK = """
import asyncio, sys
from docparser.outbound import GuardedClient, ListedHosts, public_or_in

async def ask():
    client = GuardedClient(ListedHosts(sys.argv[1], ""), public_or_in(["127.0.0.0/8"]))
    async with client.request("POST", sys.argv[2], data=b"{}") as answer:
        print(answer.status)
    await client.close()

asyncio.run(ask())
"""


def test_what_a_killed_process_was_sending_is_sent_again_with_its_id(service, receiver):
    first, second = service(), service()
    job_id = first.ended(receiver.address("/a"))
    claimed = first.queue.claim()
    assert claimed is not None and second.queue.claim() is None and second.queue.reclaim() == 0
    first.place.die()
    second.send_until(lambda: second.is_over(job_id))
    (request,) = receiver.at("/a")
    assert request.id == claimed.id and second.told(job_id).attempts == 2


def test_a_claim_whose_answer_was_lost_is_put_back_and_costs_no_attempt(service, receiver, monkeypatch):
    here = service()
    job_id = here.ended(receiver.address("/a"))
    claimed = here.queue.claim()
    here.queue.keep_only([claimed])
    assert here.queue.claim() is None, "it is being sent"
    here.queue.keep_only([])
    claim = here.queue.claim
    lost: list[Delivery] = []

    def losing(without: list[str]) -> Delivery | None:
        found = claim(without)
        if found is not None and not lost:
            lost.append(found)
            raise StorageUnavailable("the answer is lost")
        return found

    monkeypatch.setattr(here.queue, "claim", losing)
    here.send_until(lambda: here.is_over(job_id))
    assert len(receiver.at("/a")) == 1 and (here.told(job_id).state, here.told(job_id).attempts) == ("delivered", 1)


def test_an_orderly_end_waits_for_what_was_begun(service, receiver):
    here = service(callback_timeout_s=300)
    job_id = here.ended(receiver.address("/slow"))

    async def run() -> None:
        here.sender.start()
        while not receiver.held:
            await asyncio.sleep(0.02)
        closing = asyncio.create_task(here.sender.close())
        await asyncio.sleep(0.1)
        receiver.released.set()
        await closing

    asyncio.run(run())
    assert here.told(job_id).state == "delivered"


def test_rows_that_are_made_anew_keep_callbacks_and_what_was_told(tmp_path, receiver):
    here = made(Place(tmp_path), receiver)
    jobs = [here.ended(receiver.address("/told"), end) for end in ("done", "cancelled")]
    here.place.files.mark_cancelled(jobs[1])
    here.send_until(lambda: here.is_over(*jobs))
    waiting = here.ended(receiver.address("/waiting"))
    here.place.die()
    for path in tmp_path.glob("jobs.sqlite3*"):
        path.unlink()
    there = made(Place(tmp_path), receiver)
    there.place.lengths.update(here.place.lengths)
    there.place.work()
    there.send_until(lambda: there.is_over(waiting))
    assert (len(receiver.at("/told")), len(receiver.at("/waiting"))) == (2, 1)


def test_a_job_that_is_tried_again_is_told_again_with_another_id(service, receiver):
    here = service()
    job_id = here.ended(receiver.address("/a"), "failed")
    here.send_until(lambda: here.is_over(job_id))
    assert here.place.store.retry(job_id, "") == [1] and here.queue.told(job_id) is None
    here.place.work()
    there = service()
    there.send_until(lambda: there.is_over(job_id))
    assert [request.told["type"] for request in receiver.at("/a")] == ["job.failed", "job.done"]
    assert len({request.id for request in receiver.at("/a")}) == 2


def test_a_page_that_is_found_damaged_later_tells_nothing_new(service, receiver):
    here = service()
    job_id = here.place.submit(2, callback=receiver.address("/a"))
    here.place.work()
    here.send_until(lambda: here.is_over(job_id))
    here.place.queue.damaged(job_id, here.place.store.look(job_id)[2][0], "unreadable")
    assert here.place.store.look(job_id)[1].failed == 1
    assert here.place.store.job(job_id).state == "done" and here.queue.waiting() == 0


@in_a_bucket_too
def test_a_job_that_is_removed_takes_its_callback_along(service, receiver):
    here = service()
    job_id = here.ended(receiver.address("/a"))
    claimed = here.queue.claim()
    assert claimed is not None and here.queue.waiting() == 1
    assert remove_job(here.place.database, here.place.files, job_id)
    assert here.queue.waiting() == 0 and here.queue.claim() is None
    here.queue.wait(claimed, 0.0, 500, "late")  # by the one who was sending it
    assert here.queue.waiting() == 0
