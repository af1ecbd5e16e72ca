# SPDX-License-Identifier: Apache-2.0
"""What becomes of a step, however its page ends: the job runner and the store are real, the parsing of pages is
simulated."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from docparser.contract.answers import NotedBlock
from docparser.contract.request_parts import with_priority
from docparser.contract.schemas import ParseOptions
from docparser.documents.spool import Document
from docparser.errors import InvalidDocument, NotReady, QuotaExceeded, StorageDamaged
from docparser.jobs.runner import WATCHED_STEPS, JobRunner
from docparser.jobs.step_work import GONE
from docparser.jobs.storage.job_order import Eligible
from docparser.jobs.storage.queue import Claim
from docparser.jobs.storage.retention import Retention
from docparser.jobs.storage.states import Job, Step
from docparser.parsing.fair_queue import Flow
from docparser.parsing.result import BLOCK_TRIES, PageOutcome
from docparser.worker.messages import ParsedPage
from tests.support.job_place import Place
from tests.support.off_the_loop import off_the_loop
from tests.support.simulated_parse_service import SimulatedService, runner_of
from tests.support.wait import WAIT_S, wait_for

FAILED: NotedBlock = {"block_id": 1, "kind": "failed", "message": "engine dead"}
REFUSED: NotedBlock = {"block_id": 1, "kind": "refused", "message": "too wide"}
Ends = Callable[[int, int], PageOutcome]  # page, and how often it was begun -> its end


def parsed(number: int, *notes: NotedBlock, answered: int = 1, frozen: dict[str, bytes] | None = None) -> PageOutcome:
    text = {"markdown": {"text": f"page {number}", "images": {}}, "tableHeads": []}
    entry = json.dumps({"inputImage": "", **text}).encode()
    return PageOutcome(number - 1, parsed=ParsedPage(entry, 10, 20, answered, list(notes), {}, frozen=frozen))


class Pages(SimulatedService):
    """``count`` pages; ``ends`` says how one ends, or raises."""

    def __init__(self, count: int, ends: Ends) -> None:
        super().__init__()
        self.count, self.ends = count, ends
        self.joined: list[list[str]] = []
        self.refuses_to_join = False
        self.watched: set[str] = set()

    def watches(self, client: str) -> bool:
        return client in self.watched

    async def count_pages(self, document: Document, flow: Flow) -> int:
        return self.count

    async def page(self, document: Document, index: int, *_: Any, **__: Any) -> PageOutcome:
        assert Path(document.path).exists() and document.format == "PDF"
        self.begun[index + 1] += 1
        return self.ends(index + 1, self.begun[index + 1])

    async def join(
        self, frozen: dict[int, dict[str, bytes]], options: ParseOptions, flow: Flow
    ) -> tuple[list[bytes], list[tuple[int, NotedBlock]]]:
        assert all(page == {"frozen.json": b"%d" % (index + 1)} for index, page in frozen.items())
        self.joined.append([content.decode() for page in frozen.values() for content in page.values()])
        if self.refuses_to_join:
            raise InvalidDocument("no page of it fits")
        texts = [json.dumps({"markdown": {"text": f"joined {place}"}}).encode() for place in range(len(frozen))]
        return texts, [(1, REFUSED)] if len(frozen) > 1 else []


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    for name in ("runner.POLL_S", "runner.PAUSE_S", "step_work.PAUSE_S", "step_work.BLOCK_PAUSE_S"):
        monkeypatch.setattr(f"docparser.jobs.{name}", 0.01)
    return Place(tmp_path)


def options_of(place: Place, job_id: str, options: dict[str, Any]) -> None:
    with place.database.writing() as connection:
        connection.execute("UPDATE jobs SET options = ? WHERE id = ?", (json.dumps(options), job_id))


def run(place: Place, runner: JobRunner, job_id: str) -> tuple[Job, list[Step]]:
    """The job and its steps when it has ended."""

    async def scenario() -> None:
        runner.start()
        async with asyncio.timeout(WAIT_S):
            while not place.store.job(job_id).state.ended:
                await asyncio.sleep(0.01)
        await runner.close()

    with off_the_loop():
        asyncio.run(scenario())
    job, _, steps, _ = place.store.look(job_id)
    return job, steps


def raising(error: Exception) -> Ends:
    def end(number: int, begun: int) -> PageOutcome:
        if number == 2:
            raise error
        return parsed(number)

    return end


@pytest.mark.parametrize(
    ("ends", "begun", "kind", "words"),
    [
        (lambda number, begun: parsed(number), 1, None, None),
        (lambda number, begun: parsed(number, FAILED) if begun < BLOCK_TRIES else parsed(number), 3, None, None),
        (lambda number, begun: parsed(number, FAILED), 3, None, None),
        (lambda number, begun: parsed(number, REFUSED), 1, None, None),
        (
            lambda number, begun: parsed(number, FAILED, answered=0),
            3,
            "VlmUnavailable",
            "The VLM server failed on every block: engine dead",
        ),
        (lambda number, begun: PageOutcome(1, error=InvalidDocument("torn")), 1, "InvalidDocument", "torn"),
        (raising(InvalidDocument("no PDF")), 1, "InvalidDocument", "no PDF"),
        (raising(KeyError("secret")), 1, "InternalError", "The parser failed on this page; the operator finds"),
    ],
)
def test_how_a_page_ends(place: Place, ends: Ends, begun: int, kind: str | None, words: str | None):
    service = Pages(2, lambda number, times: ends(number, times) if number == 2 else parsed(number))
    job, (first, second) = run(place, runner_of(place, service), job_id := place.submit())
    assert (service.begun, first.state, second.kind) == (Counter({1: 1, 2: begun}), "done", kind)
    assert str(second.error).startswith(str(words)) and job.state == "done"
    if kind is None:
        assert (second.width, second.height) == (10, 20) and second.folder is not None
        page = place.files.page(job_id, second.folder, second.sha256)
        assert page["entry"]["markdown"]["text"] == "page 2" and (page["number"], page["models"]) == (2, {})


def test_what_keeps_the_service_from_working_is_no_pages_fault(place: Place, caplog: pytest.LogCaptureFixture):
    """It is begun again when the service can work, as often as that takes; meanwhile the reason is told."""

    def ends(number: int, begun: int) -> PageOutcome:
        if begun < 40:
            raise NotReady("the models are loading")
        return parsed(number)

    runner = runner_of(place, Pages(1, ends))
    job, (step,) = run(place, runner, place.submit())
    assert (job.state, step.attempts) == ("done", 1)
    assert "jobs pause: the models are loading" in caplog.text


def test_jobs_do_not_wait_for_the_search_for_leftovers_which_stops_with_the_service(place: Place, monkeypatch):
    ended = []

    def walk(self: Retention, stop: Callable[[], bool]) -> None:
        wait_for(stop, what="the end of the service")
        ended.append(True)

    monkeypatch.setattr(Retention, "remove_leftovers", walk)
    job, _ = run(place, runner_of(place, Pages(1, lambda number, _: parsed(number))), place.submit())
    assert job.state == "done" and ended


def test_a_document_that_is_gone_is_named(place: Place):
    job_id = place.submit()
    (place.files.folder(job_id) / "document").unlink()
    job, _ = run(place, runner_of(place, Pages(1, lambda number, begun: parsed(number))), job_id)
    assert (job.state, job.error) == ("failed", GONE)


def test_a_document_that_goes_while_its_page_is_read_is_named_too(place: Place):
    def ends(number: int, begun: int) -> PageOutcome:
        (place.files.folder(job_id) / "document").unlink()
        return parsed(number)

    job_id = place.submit()
    job, (step,) = run(place, runner_of(place, Pages(1, ends)), job_id)
    assert job.state == "failed" and step.error == GONE and place.files.page_folders(job_id) == {}


@pytest.mark.parametrize(("ranges", "numbers"), [(None, [1, 2, 3]), ("2-", [2, 3]), ("4", None)])
def test_pages_are_counted_once_and_those_that_were_asked_for(place: Place, ranges: str | None, numbers: list | None):
    counted: list[tuple[str, int, str]] = []
    service = Pages(3, lambda number, begun: parsed(number))
    runner, job_id = runner_of(place, service), place.submit(owner="me")
    allowance: Any = runner._steps._allowance
    allowance.spend_pages = lambda client, count, *, reference="": counted.append((client, count, reference))
    with place.database.writing() as connection:
        connection.execute("UPDATE jobs SET page_ranges = ? WHERE id = ?", (ranges, job_id))
    job, steps = run(place, runner, job_id)
    if numbers is None:
        assert job.state == "failed" and "4 is not a page of the document" in str(job.error)
        assert counted == []
    else:
        assert [step.number for step in steps] == numbers and counted == [("me", len(numbers), job_id)]
        assert (job.document_pages, job.total_pages) == (3, len(numbers))


def test_a_quota_that_is_used_up_fails_the_job(place: Place):
    def spend(*_: object, **__: object) -> None:
        raise QuotaExceeded("used up")

    runner = runner_of(place, service := Pages(1, lambda number, begun: parsed(number)))
    allowance: Any = runner._steps._allowance
    allowance.spend_pages = spend
    job, _ = run(place, runner, place.submit())
    assert (job.state, job.error, service.begun) == ("failed", "used up", Counter())


FROZEN: Ends = lambda number, begun: parsed(number, frozen={"frozen.json": b"%d" % number})  # noqa: E731 (it has a type)


@pytest.mark.parametrize("joins", [True, False])
def test_joined_pages_take_the_place_of_single_ones(place: Place, joins: bool):
    service = Pages(2, FROZEN)
    service.refuses_to_join = not joins
    options_of(place, job_id := place.submit(), {"restructurePages": True})
    submitted = place.files.size(job_id)
    job, steps = run(place, runner_of(place, service), job_id)
    with place.database.reading() as connection:
        (counted,) = connection.execute("SELECT bytes FROM jobs").fetchone()
    assert counted - 5 == place.files.size(job_id) - submitted, "retention counts what is there, and the document's 5"
    pages = [place.files.page(job_id, str(step.folder), step.sha256) for step in steps if step.number > 0]
    assert service.joined == [["1", "2"]] and job.state == "done"
    assert all(len(folders) == 1 for folders in place.files.page_folders(job_id).values()), "none is left over"
    texts = [page["entry"]["markdown"]["text"] for page in pages]
    if joins:
        assert texts == ["joined 0", "joined 1"] and job.error is None
        assert [set(page["entry"]) for page in pages] == [{"markdown", "inputImage"}] * 2, "nothing of their own texts"
        assert [page["block_notes"] for page in pages] == [[], [REFUSED]]
    else:
        assert texts == ["page 1", "page 2"] and job.error == "the pages could not be joined: no page of it fits"


def test_pages_that_are_joined_again_say_only_what_the_last_joining_does(place: Place):
    def ends(number: int, begun: int) -> PageOutcome:
        torn = number == 3 and begun == 1
        return PageOutcome(2, error=InvalidDocument("torn")) if torn else FROZEN(number, begun)

    service = Pages(3, ends)
    options_of(place, job_id := place.submit(), {"restructurePages": True})
    run(place, runner_of(place, service), job_id)
    assert place.store.retry(job_id, "") == [3]
    _, steps = run(place, runner_of(place, service), job_id)
    pages = [place.files.page(job_id, str(step.folder), step.sha256) for step in steps if step.number > 0]
    assert service.joined == [["1", "2"], ["1", "2", "3"]]
    assert [page["block_notes"] for page in pages] == [[], [REFUSED], []]


def test_a_page_that_can_never_be_joined_fails_and_the_others_are_joined(place: Place, monkeypatch):
    monkeypatch.setattr("docparser.jobs.storage.queue.MAX_ATTEMPTS", 2)
    service, read_page = Pages(2, FROZEN), place.files.read_page

    def damaged(job_id: str, folder: str, sha256: str | None) -> tuple[dict[str, Any], dict[str, bytes]]:
        if folder.startswith("000002"):
            raise StorageDamaged("not what was written")
        return read_page(job_id, folder, sha256)

    monkeypatch.setattr(place.files, "read_page", damaged)
    options_of(place, job_id := place.submit(), {"restructurePages": True})
    job, (first, second) = run(place, runner_of(place, service), job_id)
    assert (job.state, first.state, second.kind) == ("done", "done", "StorageDamaged")
    assert service.begun == Counter({1: 1, 2: 2}) and service.joined == [["1"]]


@pytest.mark.parametrize("readable", [True, False])
def test_a_job_that_is_cancelled_while_it_is_joined_keeps_its_single_pages(place: Place, monkeypatch, readable: bool):
    class Cancelled(Pages):
        async def join(self, *arguments: Any) -> Any:
            place.store.cancel(job_id, "")
            return await super().join(*arguments)

    def unreadable(*_: object) -> None:
        place.store.cancel(job_id, "")
        raise StorageDamaged("not what was written")

    async def scenario() -> None:
        while claim := place.queue.claim():
            await steps.do(claim)

    if not readable:
        monkeypatch.setattr(place.files, "read_page", unreadable)
    steps = runner_of(place, Cancelled(2, FROZEN))._steps
    options_of(place, job_id := place.submit(), {"restructurePages": True})
    asyncio.run(scenario())
    job, _, pages, _ = place.store.look(job_id)
    assert job.state == "cancelled" and len(pages) == 2
    assert place.files.page_folders(job_id) == {page.number: [page.folder] for page in pages}


def test_a_cancelled_job_ends_its_pages_and_an_orderly_end_gives_them_back(place: Place):
    begun: list[str] = []

    class Endless(Pages):
        async def page(self, *arguments: Any, **options: Any) -> PageOutcome:
            begun.append("page")
            try:
                await asyncio.Event().wait()
            finally:
                begun.append("ended")
            raise AssertionError

    async def scenario() -> None:
        runner.start()
        async with asyncio.timeout(WAIT_S):
            while begun != ["page", "page"]:
                await asyncio.sleep(0.01)
            place.store.cancel(cancelled, "")
            while "ended" not in begun:
                await asyncio.sleep(0.01)
        await runner.close()

    cancelled, kept = place.submit(flow="a"), place.submit(flow="b")
    runner = runner_of(place, Endless(1, lambda number, times: parsed(number)))
    asyncio.run(scenario())
    assert place.store.look(cancelled)[2] == [] and begun.count("ended") == 2
    (step,) = place.store.look(kept)[2]
    assert (step.state, step.attempts) == ("queued", 0)


BULK = with_priority("a", bulk=True)


@pytest.mark.parametrize(
    ("running", "watched", "eligible", "room"),
    [
        ({}, "", Eligible([], "last"), True),
        ({"a": 12}, "", Eligible([], "last"), False),
        ({"a": 11}, "", Eligible([], "last"), True),
        ({BULK: 10}, "", Eligible([], "last"), True),
        ({BULK: 11}, "", Eligible([], "none"), True),
        ({"a": WATCHED_STEPS - 1}, "a", Eligible([], "last"), True),
        ({"a": WATCHED_STEPS, "b": 11}, "a", Eligible(["a"], "last"), True),
        ({"a": WATCHED_STEPS, "b": 12}, "a", Eligible(["a"], "last"), False),
    ],
)
def test_which_jobs_may_be_next(place: Place, running: dict[str, int], watched: str, eligible: Eligible, room: bool):
    """Of 12 places."""
    service = Pages(1, FROZEN)
    service.watched = {watched}
    runner = runner_of(place, service)
    place.submit(1)
    job = place.claim().job
    claims: Any = {
        (flow, number): Claim(job.__class__(**{**vars(job), "flow": flow}), number, 1, number)
        for flow, count in running.items()
        for number in range(count)
    }
    runner._running = claims
    assert (runner._eligible(), runner._has_room()) == (eligible, room)


def test_after_a_tenth_of_interactive_pages_a_bulk_one_comes_first(place: Place):
    runner, begun = runner_of(place, Pages(1, FROZEN)), 0
    while runner._eligible().bulk == "last" and begun < 20:
        runner._bulk_share.begun(bulk=False)
        begun += 1
    assert 9 <= begun <= 11
