# SPDX-License-Identifier: Apache-2.0
"""The job service put together without HTTP: which settings reach what, and what a submission leaves behind where it
comes to nothing. The parsing of pages is simulated, and not reached."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import io
import json
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from starlette.requests import Request

from docparser.clients.allowance import Allowance, ClientMetrics
from docparser.clients.audit import AuditLog
from docparser.clients.key_ring import KeyRing
from docparser.clients.keys import digest
from docparser.clients.usage import SqliteUsage, UsageLedger
from docparser.contract.schemas import ParseOptions
from docparser.convert.names import How
from docparser.documents.spool import Document
from docparser.errors import (
    DataDirFull,
    InvalidJob,
    InvalidRequest,
    JobNotFound,
    OutcomeUnknown,
    QueueFull,
    QuotaExceeded,
    StorageDamaged,
    StorageUnavailable,
)
from docparser.http import answers, service_info
from docparser.http.answers import report_headers
from docparser.http.dialects import docling
from docparser.http.jobs import events, results, routes
from docparser.http.jobs.results import _picture, stored_answer, stored_result
from docparser.jobs.links import STEP_S
from docparser.jobs.result import describe_told
from docparser.jobs.service import JobService
from docparser.jobs.storage import retention
from docparser.jobs.storage.callbacks import CallbackState, Told
from docparser.jobs.storage.states import JobState, StepState
from docparser.jobs.submission import Submission, check_submission
from docparser.models.served_model import ServedModel
from docparser.models.vlm_probe import ReplicaCount
from docparser.settings import Settings
from tests.jobs.test_suspects import Ready, SimulatedService
from tests.support.job_place import Place
from tests.support.off_the_loop import off_the_loop
from tests.support.wait import WAIT_S

ME = digest("key")[:16]
MODEL = ServedModel("PaddleOCR-VL", "PaddleOCR-VL-0.9B", ("ocr",), strict=False)
NO_MODELS: Any = {}
HOUR_S = 3600
DAY = "1970-01-02T00:00:00.250Z"


class Presence(Ready):
    """Notes how long the VLM may be away."""

    def __init__(self) -> None:
        self.conditions: dict[str, Callable[[], str]] = {}
        self.asked: list[float] = []
        self.replicas = ReplicaCount(Settings())  # of no address

    def add_condition(self, name: str, trouble: Callable[[], str]) -> None:
        self.conditions[name] = trouble

    async def check_presence(self, longest_s: float) -> None:
        self.asked.append(longest_s)


class Knows(SimulatedService):
    def notes(self, options: ParseOptions) -> list[str]:
        if options.promptLabel == "seal":
            raise InvalidRequest("promptLabel: 'seal' is no task")
        return options.notes()


Made = Callable[..., JobService]


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def make(tmp_path: Path, registry: CollectorRegistry) -> Iterator[Made]:
    made: list[JobService] = []

    def make(entry: str = "", **settings: Any) -> JobService:
        ring = KeyRing(f"sha256:{digest('key')} name=me {entry}")
        allowance = Allowance(ring, UsageLedger(SqliteUsage(tmp_path / "usage.sqlite3")), ClientMetrics(registry))
        own = Settings(**{"data_dir": tmp_path, "min_free_mib": 0, **settings})
        audit = AuditLog(str(tmp_path / "audit.jsonl"))
        made.append(JobService(own, Knows(), Presence(), allowance, audit, MODEL, registry))
        return made[-1]

    yield make
    for service in made:
        asyncio.run(service.close())
        service.audit.close()


def keep(service: JobService, key: str | None = None, **fields: Any) -> str:
    document = io.BytesIO(b"%PDF-1.4")
    fields = {"model": "PaddleOCR-VL", **fields}
    submission = check_submission(fields, document, file_name="a.pdf", idempotency_key=key, served=MODEL)
    return service.keep(submission, ME, ME, "http://parser.example")


def audited(folder: Path, field: str) -> list[str]:
    return [json.loads(line)[field] for line in (folder / "audit.jsonl").read_text().splitlines()]


def used(service: JobService) -> list[int]:
    return [quota["used"] for quota in service.allowance.report(service.allowance._ring.keys()[0])]


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"max_queued_jobs": 1}, QueueFull, "^1 jobs .*PARSER_MAX_QUEUED_JOBS"),
        ({"max_queued_pages": 1}, QueueFull, "^1 pages .*PARSER_MAX_QUEUED_PAGES"),
    ],
)
def test_bounds_of_the_queue(make: Made, settings, error, words):
    service = make("jobs=2/day", **settings)
    first = keep(service)
    for refused in (service.check_room, lambda: keep(service)):
        with pytest.raises(error, match=words):
            refused()
    assert service.files.job_ids() == {first}, "nothing is left of the one that was refused"
    assert used(service) == [1]


def test_room_is_looked_for_before_a_document_is_kept(make: Made):
    service = make(min_free_mib=1 << 30)
    for refused in (service.check_room, lambda: keep(service)):
        with pytest.raises(DataDirFull, match="PARSER_MIN_FREE_MIB"):
            refused()
    assert service.files.job_ids() == set()


@pytest.mark.parametrize(
    ("settings", "later_s", "removed"),
    [
        ({"job_keep_hours": 2.0}, 2 * HOUR_S - 60, 0),
        ({"job_keep_hours": 2.0}, 2 * HOUR_S + 60, 1),
        ({"job_keep_gib": 100 / 2**30}, 0, 0),
        ({"job_keep_gib": 4 / 2**30}, 0, 1),
    ],
)
def test_how_long_and_how_much_is_kept(make: Made, tmp_path: Path, monkeypatch, settings, later_s, removed):
    service, place = make(**settings), Place(tmp_path)
    place.store.cancel(job_id := place.submit(), "")  # 5 bytes
    now = time.time() + later_s
    monkeypatch.setattr(retention.time, "time", lambda: now)
    assert service.runner._retention.sweep() == removed
    assert audited(tmp_path, "job") == [job_id] * removed and audited(tmp_path, "reason") == ["retention"] * removed


def test_addresses_live_as_long_as_the_setting_says(make: Made):
    service = make(result_url_hours=2.0)
    expires = int(service.links.path("a" * 32, "result.jsonl").split("/")[6].partition("-")[0])
    assert 2 * HOUR_S < expires - time.time() <= 2 * HOUR_S + STEP_S


@pytest.mark.parametrize(("minutes", "asked"), [(0.0, []), (5.0, [300.0])])
def test_how_long_the_vlm_may_be_away(make: Made, minutes, asked):
    service = make(job_vlm_away_minutes=minutes)
    asyncio.run(service.check_presence())
    readiness: Any = service._readiness
    assert readiness.asked == asked and readiness.conditions["jobs"]() == ""


def test_what_is_refused_leaves_nothing(make: Made, tmp_path: Path):
    service = make("jobs=1/day pages=1/day")
    with pytest.raises(InvalidRequest, match="promptLabel"):
        keep(service, optionalPayload={"promptLabel": "seal"})
    service.allowance.spend(ME, "pages")
    with pytest.raises(QuotaExceeded, match="pages=1/day"):
        keep(service)
    assert service.files.job_ids() == set() and (tmp_path / "audit.jsonl").read_text() == ""


def test_of_two_submissions_with_one_key_the_slower_leaves_nothing(make: Made, tmp_path: Path, monkeypatch):
    """Both looked for the key before either was inserted."""
    service = make("jobs=2/day")
    first = keep(service, "k", callbackUrl="https://hooks.example/")
    assert service.store.job(first).callback == {"url": "https://hooks.example/", "base": "http://parser.example"}
    assert keep(service, "k", callbackUrl="https://hooks.example/") == first
    monkeypatch.setattr(service.store, "find_key", lambda *_: None)
    assert keep(service, "k", callbackUrl="https://hooks.example/") == first
    assert service.files.job_ids() == {first} and used(service) == [1]
    assert audited(tmp_path, "outcome") == ["accepted", "repeated", "repeated"]


def test_a_submission_whose_outcome_is_not_known_stays_until_it_is(make: Made, monkeypatch):
    service = make()

    def lost(*_: object, **__: object) -> str:
        raise OutcomeUnknown("the connection is lost")

    monkeypatch.setattr(service.store, "insert", lost)
    with pytest.raises(OutcomeUnknown):
        keep(service)
    (job_id,) = service.files.job_ids()
    assert service.files.unsure(job_id)


def test_only_its_owner_purges_a_job_and_only_after_its_end(make: Made):
    service = make()
    job_id = keep(service)
    with pytest.raises(InvalidJob, match="pending; cancel it first"):
        service.purge(job_id, ME)
    service.store.cancel(job_id, ME)
    with pytest.raises(JobNotFound):
        service.purge(job_id, "another")
    service.purge(job_id, ME)
    assert service.files.job_ids() == set()


def stored(place: Place, job_id: str, number: int, reader: str) -> None:
    """A finished page that ``reader`` read, with a picture and what joining needs."""
    claim = place.claim()
    assert (claim.job.id, claim.number) == (job_id, number)
    page = {"number": number, "width": 1, "height": 2, "models": {"vlm": {"model": reader}}}
    folder, sha256, _ = place.files.keep_page(job_id, number, page, {"a.jpg": b"x", "frozen.json": b"{}"})
    place.queue.finish(claim, place.record(folder, sha256), join=False)


def test_who_read_a_job_is_what_its_first_page_says(make: Made, tmp_path: Path):
    service, place = make(), Place(tmp_path)
    job_id = place.submit(2)
    stored(place, job_id, 1, "an earlier one")
    job, _, steps, _ = service.store.look(job_id)
    assert service.read_by(job, steps) == MODEL.served_name, "it still runs"
    stored(place, job_id, 2, "a later one")
    job, _, steps, _ = service.store.look(job_id)
    assert service.read_by(job, steps) == "an earlier one"
    service.files.remove_page(job_id, str(steps[0].folder))
    assert service.read_by(job, steps) == MODEL.served_name


def test_pictures_alone_are_given_out_and_damage_is_kept_in_mind(make: Made, tmp_path: Path):
    service, place = make(), Place(tmp_path)
    job_id = place.submit(2)
    stored(place, job_id, 1, "one")
    assert _picture(service, job_id, 1, "a.jpg") == b"x"
    for number, name in (
        (1, "frozen.json"),
        (1, "page.json"),
        (1, "b.jpg"),
        (1, "../a.jpg"),
        (2, "a.jpg"),
        (3, "a"),
        (-1, "a"),
        (10**30, "a"),
    ):
        with pytest.raises(JobNotFound, match=f"page {number} has no"):
            _picture(service, job_id, number, name)
    (tmp_path / "jobs" / job_id / "pages" / str(place.store.look(job_id)[2][0].folder) / "a.jpg").write_bytes(b"y")
    with pytest.raises(StorageDamaged):
        _picture(service, job_id, 1, "a.jpg")
    assert place.store.look(job_id)[2][0].state is StepState.FAILED


FORM = b"".join(
    b'--x\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n' % part
    for part in ((b'file"; filename="a.pdf', b"%PDF-1.4"), (b"model", b"PaddleOCR-VL"))
)


async def nothing(*_: Any, **__: Any) -> None:
    pass


def test_nothing_that_blocks_is_done_in_the_event_loop(make: Made, tmp_path: Path, registry, monkeypatch):
    service, place = make(), Place(tmp_path)
    job_id = place.submit(2)
    stored(place, job_id, 1, "one")
    place.queue.fail(place.claim(), "WorkerLost", "lost", join=False)
    metrics = SimpleNamespace(exposition=lambda replicas: generate_latest(registry))
    state = SimpleNamespace(
        jobs=service, readiness=service._readiness, settings=service._settings, intake=None, metrics=metrics
    )
    scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "server": ("parser", 80), "state": {}}
    scope |= {"app": SimpleNamespace(state=state), "headers": [(b"content-type", b"multipart/form-data; boundary=x")]}

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": FORM + b"--x--\r\n"}

    request = Request(scope, receive)
    permission = service.links.path(job_id, "").split("/")[-2]

    async def scenario() -> None:
        await results.jsonl(job_id, permission, request)
        await results.picture(job_id, permission, 1, "a.jpg", request)
        await results.page(job_id, 2, request)
        await routes.state(job_id, request)
        await routes.submit(request)
        await service_info.metrics(request)
        await docling._submitted(request, io.BytesIO(b"%PDF-1.4"), docling.DoclingOptions(), "a.pdf")
        async with results.local_files(service, place.store.job(job_id), "pdf"):
            pass
        source, how = Document("a.pdf", "PDF"), How(chunk_tokens=1)
        await answers.converted(request, (), 1, "a.pdf", "pdf", source, how)

    blocks = SimpleNamespace(isfile=lambda path: asyncio.run(nothing()))  # no event loop may run in another one
    monkeypatch.setattr(answers, "os", SimpleNamespace(path=blocks))
    monkeypatch.setattr(answers, "from_child", nothing)
    with off_the_loop():
        asyncio.run(asyncio.wait_for(scenario(), WAIT_S))


def replaced(place: Place, job_id: str, number: int) -> None:
    """As joining replaces a page, by one that ``joined`` read."""
    step = next(step for step in place.store.look(job_id)[2] if step.number == number)
    page = {"number": number, "models": {"vlm": "joined"}, "entry": {}, "block_notes": [], "page_notes": []}
    folder, sha256, _ = place.files.keep_page(job_id, number, page, {"a.jpg": b"new"})
    with place.database.writing() as connection:
        connection.execute(
            "UPDATE steps SET folder = ?, sha256 = ? WHERE job_id = ? AND number = ?", (folder, sha256, job_id, number)
        )
    place.files.remove_page(job_id, step.folder)


def test_pages_that_are_joined_while_a_client_reads_them_stay_whole(make: Made, tmp_path: Path):
    service, place = make(), Place(tmp_path)
    job_id = place.submit(3)
    for number in (1, 2, 3):
        stored(place, job_id, number, "one")
        replaced(place, job_id, number)  # as a page with an entry
    job, _, steps, _ = service.store.look(job_id)
    lines = service.results.lines(job, steps, str, NO_MODELS)
    next(lines)
    for number in (2, 3):
        replaced(place, job_id, number)
    told = json.loads(next(lines))["result"]["docparser"]
    assert told["models"] == {"vlm": "joined"} and "error" not in told["pages"][0]
    files: dict[str, str] = {}
    with service.files.pictures() as pictures:
        answer = json.loads(b"".join(stored_answer(service, job, steps, NO_MODELS, pictures, files)))
    assert answer["result"]["docparser"]["pages"] == []
    assert Path(files["pages/3/a.jpg"]).read_bytes() == b"new" and service.store.look(job_id)[1].done == 3


def test_a_job_that_is_removed_while_a_client_reads_it_is_not_damaged(
    make: Made, tmp_path: Path, registry: CollectorRegistry, caplog: pytest.LogCaptureFixture
):
    service, place = make(), Place(tmp_path)
    job_id = place.submit(1)
    stored(place, job_id, 1, "one")
    job, _, steps, _ = service.store.look(job_id)
    (tmp_path / "jobs" / job_id / "pages" / str(steps[0].folder) / "page.json").write_bytes(b"{}")
    for _ in range(2):  # two clients saw the page before it failed
        (line,) = service.results.lines(job, steps, str, NO_MODELS)
        assert json.loads(line)["result"]["docparser"]["pages"][0]["error"]["kind"] == "damaged"
    assert registry.get_sample_value("docparser_damaged_pages_total") == 1
    caplog.clear()
    service.purge(job_id, "")
    with pytest.raises(JobNotFound, match="removed"):
        list(service.results.lines(job, steps, str, NO_MODELS))
    assert registry.get_sample_value("docparser_damaged_pages_total") == 1 and caplog.text == ""


def test_notes_on_a_page_make_no_result_partial(make: Made, tmp_path: Path):
    service, place = make(), Place(tmp_path)
    job_id = place.submit(2)
    for number, notes in ((1, {"page_notes": [{"kind": "blank", "message": "m"}]}), (2, {})):
        claim, page = (
            place.claim(),
            {"number": number, "entry": {}, "models": {}, "block_notes": [], "page_notes": [], **notes},
        )
        folder, sha256, _ = place.files.keep_page(job_id, number, page, {})
        place.queue.finish(claim, place.record(folder, sha256), join=False)
    job, _, steps, _ = service.store.look(job_id)
    report = json.loads(b"".join(stored_result(service, job, steps, NO_MODELS, str)))["docparser"]
    assert report["pages"] and report["partial"] is False and report_headers(report) == {}


@pytest.mark.parametrize(
    ("pages", "said"),
    [
        ([4], "4"),
        ([9, 3, 4, 5], "3-5,9"),
        (range(2, 222, 2), ",".join(map(str, range(2, 202, 2))) + ",..."),
    ],
)
def test_pages_of_a_header_are_bounded(pages: Iterable[int], said: str):
    assert report_headers({"partial": True, "pages": []}, pages) == {"Document-Partial": said}


def test_a_page_that_is_read_while_the_storage_is_away_is_not_damaged(make: Made, tmp_path: Path, monkeypatch):
    service, place = make(), Place(tmp_path)
    job_id = place.submit(1)
    stored(place, job_id, 1, "one")
    job, _, steps, _ = service.store.look(job_id)

    def reads() -> None:
        for read in (
            lambda: _picture(service, job_id, 1, "a.jpg"),
            lambda: list(service.results.lines(job, steps, str, NO_MODELS)),
        ):
            with pytest.raises(StorageUnavailable, match="PARSER_DATA_DIR"):
                read()

    (tmp_path / "jobs").rename(tmp_path / "unmounted")
    reads()
    (tmp_path / "unmounted").rename(tmp_path / "jobs")

    def fail(*_: object) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as server_away:  # what a network file system has in mind it still tells
        server_away.setattr(service.files, "read_page_file", fail)
        server_away.setattr("docparser.jobs.storage.data_folder.os.fsync", fail)
        reads()
    assert service.store.look(job_id)[1].done == 1 and _picture(service, job_id, 1, "a.jpg") == b"x"


def capacity(service: JobService) -> dict[str, Any]:
    state = SimpleNamespace(jobs=service, settings=service._settings)
    request: Any = SimpleNamespace(app=SimpleNamespace(state=state))
    return json.loads(bytes(asyncio.run(routes.capacity(request)).body))["result"]


def test_what_the_capacity_says_of_the_queue(make: Made, tmp_path: Path):
    service, place = make(max_queued_jobs=3, max_queued_pages=3), Place(tmp_path)
    assert capacity(service) | {"accepting": True, "estimateSeconds": None} == capacity(service)
    long = place.submit(5)
    for number in (1, 2):
        stored(place, long, number, "one")
    place.claim()
    found = capacity(service)
    assert found["pages"] == {"queued": 2, "running": 1, "most": 3}
    assert found["jobs"] == {"pending": 0, "running": 1, "most": 3}
    # Two pages in 300 s; three wait or are at work, and the one that is submitted now.
    assert (found["pagesPerMinute"], found["estimateSeconds"], found["accepting"]) == (0.4, 600.0, True)
    place.submit()  # its opening waits, too
    found = capacity(service)
    assert found["jobs"]["pending"] == 1 and found["pages"]["queued"] == 3 and not found["accepting"]


def test_jobs_beyond_their_bound_are_not_accepted(make: Made, tmp_path: Path):
    service, place = make(max_queued_jobs=2), Place(tmp_path)
    place.submit(), place.submit()
    place.claim()
    assert not capacity(service)["accepting"]


def test_pages_that_are_tried_again_count_again(make: Made, tmp_path: Path):
    service, place = make("pages=9/day"), Place(tmp_path)
    job_id = place.submit(2, owner=ME)
    for kind in ("WorkerLost", "DocumentTooSlow"):
        place.queue.fail(place.claim(), kind, "why", join=False)
    place.files.mark_told(job_id, "failed")
    assert routes._retry(service, job_id, ME) == 1, "what took too long takes as long again"
    assert not place.files.marks(job_id)
    assert used(service) == [1]


def test_opening_and_joining_that_are_tried_again_are_no_pages(make: Made, tmp_path: Path):
    service, place = make("pages=9/day"), Place(tmp_path)
    job_id = place.submit(1, owner=ME)
    opening = place.queue.claim()
    assert opening is not None
    place.queue.fail(opening, "InvalidDocument", "why", join=False)
    place.files.mark_told(job_id, "failed")
    assert routes._retry(service, job_id, ME) == 0 and used(service) == [0]
    assert place.store.job(job_id).state == "running" and not place.files.marks(job_id)


def test_a_follower_is_told_each_change_and_that_the_rest_is_still_to_come(make: Made, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(events, "HEARTBEAT_S", 0.05)
    monkeypatch.setattr(events, "AWAY_S", 0.0)
    service, place = make(), Place(tmp_path)
    job_id, look = place.submit(2), service.store.look

    async def scenario() -> None:
        stream = events._stream(service, job_id, "", -1)

        async def told() -> list[tuple[str, dict[str, Any]]]:
            """The next events, each with its name; comments are passed over."""
            while (text := (await anext(stream)).decode()).startswith(":"):
                assert text.endswith("\n\n")
            lines = [line.split(": ", 1)[1] for line in text.splitlines() if line]
            return [(name, json.loads(data)) for name, data in zip(lines[1::3], lines[2::3], strict=True)]

        ((name, first),) = await told()
        assert (name, first["state"], first["docparser"].get("waitsFor")) == ("job", "pending", None)
        assert await anext(stream) == b": still here\n\n"
        service.runner._paused_by = "the VLM is away"
        ((name, paused),) = await told()
        assert (name, paused["docparser"]["waitsFor"]) == ("job", "the VLM is away")
        service.runner._paused_by = ""
        await told()

        def away(*_: object) -> None:
            monkeypatch.setattr(service.store, "look", look)
            raise StorageUnavailable("away")

        monkeypatch.setattr(service.store, "look", away)
        while await anext(stream) != b": the job store is away\n\n":
            pass
        stored(place, job_id, 1, "one")
        place.queue.fail(place.claim(), "WorkerLost", "lost", join=False)
        seen = await told()
        while seen[-1][1]["state"] != "done":
            seen += await told()
        pages = {event["page"]: event for name, event in seen if name == "page"}
        assert pages[1]["state"] == "done" and (pages[1]["width"], pages[1]["height"]) == (1, 2)
        assert (pages[2]["state"], pages[2]["error"], "width" in pages[2]) == ("failed", "lost", False)
        assert [name for name, event in seen][-1] == "job"
        with pytest.raises(StopAsyncIteration):
            await anext(stream)

    asyncio.run(asyncio.wait_for(scenario(), WAIT_S))


def test_the_stream_of_a_job_that_is_removed_ends(make: Made, tmp_path: Path):
    service, place = make(), Place(tmp_path)
    job_id = place.submit(2)

    async def scenario() -> list[bytes]:
        stream = events._stream(service, job_id, "", -1)
        seen = [await anext(stream)]
        routes._cancel(service, job_id, "", purge=True)
        return seen + [event async for event in stream if not event.startswith(b":")]

    (only,) = asyncio.run(asyncio.wait_for(scenario(), WAIT_S))
    assert b"pending" in only


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (None, {"state": "waiting", "attempts": 0}),
        (("queued", 0, None, None), {"state": "queued", "attempts": 0}),
        (("sending", 1, None, None), {"state": "sending", "attempts": 1, "lastStatus": None}),
        (
            ("queued", 2, 500, "why"),
            {"state": "queued", "attempts": 2, "lastStatus": 500, "lastError": "why", "nextTime": DAY},
        ),
        (("delivered", 3, 204, None), {"state": "delivered", "attempts": 3, "lastStatus": 204}),
        (("over", 1, None, None), {"state": "over", "attempts": 1}),
    ],
)
def test_what_a_jobs_state_says_of_its_callback(tmp_path: Path, told: tuple | None, said: dict[str, Any]):
    place = Place(tmp_path)
    job = place.store.job(place.submit(callback="https://hooks.example/"))
    found = Told("done", CallbackState(told[0]), told[1], 86_400.25, *told[2:]) if told else None
    assert describe_told(job, found) == (said if told is None else {"type": "job.done", **said})
    assert describe_told(place.store.job(place.submit()), found) is None


@pytest.mark.parametrize(
    ("state", "status", "counts"),
    [
        ("pending", "pending", (0, 0, 0)),
        ("running", "started", (0, 0, 0)),
        ("done", "success", (1, 1, 0)),
        ("failed", "failure", (1, 0, 1)),
        ("cancelled", "failure", (1, 0, 1)),
    ],
)
def test_a_job_as_a_task_of_docling_serve(tmp_path: Path, state: str, status: str, counts: tuple[int, int, int]):
    place = Place(tmp_path)
    job = dataclasses.replace(place.store.job(place.submit()), state=JobState(state), error="why")
    task = docling._described("task", job)
    meta = task["task_meta"]
    assert (task["task_id"], task["task_status"], meta["num_docs"]) == ("task", status, 1)
    assert (meta["num_processed"], meta["num_succeeded"], meta["num_failed"]) == counts
    assert task.get("error_message") == ("why" if counts[2] else None)


def test_what_a_key_is_told_of_itself(make: Made):
    service = make("expires=2099-01-31 pages=5/day")
    service.allowance.spend(ME, "pages", 2)

    def usage(client: str) -> dict[str, Any]:
        state = SimpleNamespace(keys=service.allowance._ring, allowance=service.allowance)
        request: Any = SimpleNamespace(app=SimpleNamespace(state=state), state=SimpleNamespace(key_id=client))
        return json.loads(bytes(asyncio.run(service_info.usage(request)).body))["result"]

    mine = usage(ME)
    assert (mine["name"], mine["expires"]) == ("me", "2099-01-31T00:00:00Z")
    assert [(quota["name"], quota["limit"], quota["used"]) for quota in mine["quotas"]] == [("pages/day", 5, 2)]
    assert usage("") == {"name": None, "expires": None, "quotas": []}


@pytest.mark.parametrize(("priority", "bulk"), [(None, False), ("interactive", False), ("bulk", True), ("", False)])
def test_what_a_submission_asks_for(priority: str | None, bulk: bool):
    asked = {"batchId": "b", "pageRanges": "2-", "callbackUrl": "https://a.example/", "priority": priority}
    payload = {"file": "left out", "fileType": 0, "mergeTables": False}

    def made(**fields: Any) -> Submission:
        fields = {"model": "PaddleOCR-VL-1.5", "optionalPayload": payload, **asked, **fields}
        name = "folder/" + "n" * 250
        return check_submission(fields, io.BytesIO(b"%PDF-1"), file_name=name, idempotency_key="k" * 128, served=MODEL)

    found = made()
    assert (found.bulk, found.batch_id, found.page_ranges) == (bulk, "b", "2-")
    assert (found.callback_url, found.options) == ("https://a.example/", {"mergeTables": False})
    assert (found.file_name, found.format, found.document.read()) == ("n" * 200, "PDF", b"%PDF-1")
    others = [
        made(batchId="c"),
        made(pageRanges="3-"),
        made(callbackUrl="https://b.example/"),
        made(model="PaddleOCR-VL"),
    ]
    others += [made(optionalPayload={}), made(priority="interactive" if priority != "interactive" else "bulk")]
    prints = {one.fingerprint for one in (found, *others)}
    assert len(prints) == 7 and made().fingerprint == found.fingerprint
    for field, most in (("batchId", 128), ("pageRanges", 10_000), ("callbackUrl", 2048)):
        with pytest.raises(InvalidJob, match=f"{field}: .* at most {most}"):
            made(**{field: "1" * (most + 1)})
    assert made(batchId="1" * 128).batch_id == "1" * 128
