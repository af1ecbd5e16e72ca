# SPDX-License-Identifier: Apache-2.0
"""The job store without a service: fair turns, crashes, damaged files, a full disk, retention."""

from __future__ import annotations

import functools
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from docparser.errors import (
    DataDirFull,
    InvalidJob,
    JobNotFound,
    KeyReused,
    LinkRefused,
    QueueFull,
    StorageDamaged,
    StorageUnavailable,
)
from docparser.http.jobs.results import stored_answer
from docparser.jobs.links import STEP_S, Links
from docparser.jobs.result import Damage, Results
from docparser.jobs.step_work import pages_of_job
from docparser.jobs.storage import queue, repair, retention
from docparser.jobs.storage.data_folder import FolderFiles
from docparser.jobs.storage.job_folders import JobFolders
from docparser.jobs.storage.retention import Retention
from docparser.jobs.storage.states import JOINING, JobState
from tests.support.job_place import Place, in_a_bucket_too
from tests.support.wait import wait_for


@pytest.fixture
def place(open_place) -> Place:
    return open_place()


def test_clients_and_their_jobs_take_turns(place):
    long = place.submit(4, "long")
    small = [place.submit(1, "small") for _ in range(3)]
    order = place.work()
    assert [job for job, _ in order] == [long, small[0], long, small[1], long, small[2], long]
    assert [page for job, page in order if job == long] == [1, 2, 3, 4]


def test_the_jobs_of_one_client_take_turns_too(place):
    long, short = place.submit(4, "one"), place.submit(2, "one")
    assert [job for job, _ in place.work()] == [long, short, long, short, long, long]


def test_a_client_that_comes_later_gets_no_credit_for_the_time_before(place):
    first = place.submit(20, "first")
    for _ in range(10):
        place.parse(place.claim())
    second = place.submit(20, "second")
    turns = [job for job, _ in place.work()[:10]]
    assert turns.count(first) == turns.count(second) == 5


@in_a_bucket_too
def test_steps_of_a_dead_process_are_begun_again_and_finished_ones_not(open_place):
    first, second = open_place(), open_place()
    job_id = first.submit(3)
    first.parse(first.claim())
    lost = first.claim()
    assert second.queue.reclaim() == 0  # it lives
    first.die()
    wait_for(functools.partial(reclaims_one, second))  # PostgreSQL notices the end of a session by and by
    assert [page for _, page in second.work()] == [lost.number, 3]
    job, counts, _, _ = second.store.look(job_id)
    assert job.state is JobState.DONE and counts.done == 3


def test_a_page_of_a_cancelled_job_goes_with_its_process(open_place):
    first, second = open_place(), open_place()
    job_id = first.submit()
    first.claim()
    first.store.cancel(job_id, "")
    first.die()
    wait_for(functools.partial(reclaims_one, second))
    assert second.store.look(job_id)[2] == [] and second.store.load().queued_pages == 0


def reclaims_one(place: Place) -> bool:
    return place.queue.reclaim() == 1


def test_a_page_that_takes_the_service_down_each_time_ends_some_day(open_place, monkeypatch):
    monkeypatch.setattr(queue, "MAX_ATTEMPTS", 3)
    place = open_place()
    job_id = place.submit()
    for _ in range(3):
        assert place.claim().number == 1
        place.die()
        place = open_place()
        wait_for(functools.partial(reclaims_one, place))
    assert place.try_claim() is None
    assert place.store.job(job_id).state is JobState.FAILED


@pytest.mark.parametrize(("options", "joins"), [({"restructurePages": True}, True), ({}, False), ({"a": 1}, False)])
def test_the_others_are_joined_when_the_last_page_is_given_up(open_place, monkeypatch, options, joins):
    monkeypatch.setattr(queue, "MAX_ATTEMPTS", 1)
    first, second, third = (open_place() for _ in range(3))
    job_id = first.submit(2)
    with first.database.writing() as connection:
        connection.execute("UPDATE jobs SET options = ? WHERE id = ?", (json.dumps(options), job_id))
    first.queue.finish(first.claim(), first.record("one"), join=joins)
    assert first.claim().number == 2
    first.die()
    wait_for(functools.partial(reclaims_one, second))
    claim = second.queue.claim()
    assert (claim is not None and claim.number == JOINING) == joins
    assert second.store.job(job_id).state == (JobState.RUNNING if joins else JobState.DONE)
    if joins:
        second.die()
        wait_for(functools.partial(reclaims_one, third))
        assert third.store.job(job_id).error == f"the pages could not be joined: {queue.LOST}"


def test_what_is_finished_for_a_cancelled_job_changes_nothing(place):
    job_id = place.submit(3)
    claim = place.claim()
    assert place.store.cancel(job_id, "").state is JobState.CANCELLED
    assert place.store.load().queued_pages == 0 and place.queue.claim() is None
    assert place.store.cancel(job_id, "").state is JobState.CANCELLED  # harmless
    place.parse(claim)
    job, counts, _, _ = place.store.look(job_id)
    assert job.state is JobState.CANCELLED and (counts.done, counts.running) == (0, 0)


def test_the_same_key_makes_one_job_and_another_document_under_it_is_refused(place):
    assert place.submit(key="k") == place.submit(key="k")
    with pytest.raises(KeyReused, match="Idempotency-Key: 'k'"):
        place.submit(key="k", fingerprint="other")


def test_a_full_queue_names_its_setting_and_takes_jobs_again_later(open_place):
    place = open_place(jobs=1)
    place.submit()
    with pytest.raises(QueueFull, match="PARSER_MAX_QUEUED_JOBS"):
        place.submit()
    place.work()
    place.submit()


def test_a_step_that_is_put_back_waits_and_counts_as_it_is_told(place):
    place.submit(1)
    for delay_s, count, attempts in ((0.0, False, 1), (0.0, True, 1), (0.0, True, 2), (60.0, True, 3)):
        claim = place.claim()
        assert claim.attempts == attempts
        place.queue.requeue(claim, delay_s, count=count)
    assert place.try_claim() is None, "for a minute"


def test_a_page_that_pauses_lets_the_next_one_of_its_job_go_first(place):
    place.submit(2)
    first = place.claim()
    place.queue.requeue(first, 60.0, count=True)
    second = place.claim()
    assert (first.number, second.number) == (1, 2) and place.try_claim() is None


def test_a_full_queue_of_pages_names_its_setting(open_place):
    place = open_place(pages=2)
    place.submit(3)
    place.claim()
    with pytest.raises(QueueFull, match="2 pages are waiting.*PARSER_MAX_QUEUED_PAGES"):
        place.store.check_room()
    place.claim()
    place.store.check_room()


def test_failed_pages_are_tried_again_alone(place):
    job_id = place.submit(2)
    place.parse(place.claim())
    place.queue.fail(place.claim(), "WorkerLost", "lost", join=False)
    job, counts, _, _ = place.store.look(job_id)
    assert job.state is JobState.DONE and job.error == "1 of 2 pages failed; page 2: lost" and counts.failed == 1
    assert place.store.retry(job_id, "") == [2]
    assert place.store.job(job_id).started > job.finished, "it did not work in between"
    assert [page for _, page in place.work()] == [2]
    assert place.store.job(job_id).error is None


def test_joining_that_fails_ends_the_job_and_can_be_tried_again(place):
    """It was begun again for ever."""
    job_id = place.submit(1)
    place.queue.finish(place.claim(), place.record("one"), join=True)
    joining = place.queue.claim()
    assert joining.number == JOINING
    place.queue.fail(joining, "BoundExceeded", "too large", join=True)
    job = place.store.job(job_id)
    assert (job.state, job.error) == (JobState.DONE, "the pages could not be joined: too large")
    assert place.queue.claim() is None and place.store.retry(job_id, "") == [JOINING]
    place.queue.joined(place.queue.claim(), {1: place.record("joined")}, 3)
    job, _, (step,), _ = place.store.look(job_id)
    assert (job.state, job.error, step.folder) == (JobState.DONE, None, "joined")


def test_joining_that_failed_waits_for_the_pages_that_are_tried_again(place):
    job_id = place.submit(2)
    place.queue.finish(place.claim(), place.record("one"), join=True)
    place.queue.fail(place.claim(), "WorkerLost", "lost", join=True)
    place.queue.fail(place.queue.claim(), "BoundExceeded", "too large", join=True)
    assert place.store.retry(job_id, "") == [2]
    page = place.claim()
    assert page.number == 2 and place.queue.claim() is None
    place.queue.finish(page, place.record("two"), join=True)
    assert place.queue.claim().number == JOINING and place.store.job(job_id).state is JobState.RUNNING


def test_jobs_of_one_owner_are_listed_newest_first_while_others_arrive(place):
    mine = [place.submit(2, owner="me", batch_id="odd" if number % 2 else None) for number in range(5)][::-1]
    theirs = place.submit(owner="them")
    place.store.cancel(mine[1], "me")
    place.parse(place.claim())

    def ids(most: int, **wanted) -> list[str]:
        return [job.id for job, _ in place.store.newest("me", most, **wanted)]

    assert ids(9) == mine and theirs not in ids(9) and place.store.newest("nobody", 9) == []
    first = place.store.newest("me", 2)[-1][0]
    arrived = place.submit(owner="me")
    assert ids(2, before=(first.created, first.id)) == mine[2:4]
    assert ids(9)[0] == arrived
    assert ids(9, states=[JobState.CANCELLED]) == [mine[1]]
    assert ids(9, states=[JobState.CANCELLED, JobState.RUNNING]) == [mine[1], mine[-1]]
    assert ids(9, batch_id="odd") == [mine[1], mine[3]]
    [(_, counts)] = place.store.newest("me", 9, states=[JobState.RUNNING])
    assert (counts.done, counts.queued) == (1, 1)


def test_a_damaged_database_is_set_aside_and_rebuilt_from_the_folders(tmp_path):
    place = Place(tmp_path)
    done, half, cancelled = place.submit(1), place.submit(2), place.submit()
    place.store.cancel(cancelled, "")
    place.files.mark_cancelled(cancelled)
    for _ in range(2):
        place.parse(place.claim())
    assert place.store.job(done).state is JobState.DONE
    place.die()
    for suffix in ("-wal", "-shm"):
        (tmp_path / f"jobs.sqlite3{suffix}").unlink(missing_ok=True)
    (tmp_path / "jobs.sqlite3").write_bytes(b"no database" * 1000)
    again = Place(tmp_path)
    assert len(list(tmp_path.glob("jobs.sqlite3.damaged-*"))) == 1
    assert again.store.job(cancelled).state is JobState.CANCELLED
    again.lengths = place.lengths
    assert again.work() == [(half, 2)]  # the finished pages are not parsed again
    assert again.store.job(done).state is again.store.job(half).state is JobState.DONE


def test_a_damaged_database_in_use_is_not_touched(tmp_path):
    place = Place(tmp_path)
    held = repair.mark_in_use(tmp_path)
    place.die()
    (tmp_path / "jobs.sqlite3").write_bytes(b"no database" * 1000)
    with pytest.raises(StorageUnavailable, match="another process uses it"):
        repair.open_database(place.files)
    held.close()


@in_a_bucket_too
def test_a_damaged_page_is_found_and_can_be_retried(place):
    job_id = place.submit(2)
    place.work()
    step = place.store.look(job_id)[2][0]
    content = place.files.read_page_file(job_id, step.folder, "page.json")
    place.files.remove_page(job_id, step.folder)
    place.files.write_page(job_id, step.folder, {}, content[:-5])
    with pytest.raises(StorageDamaged, match="not what was written"):
        place.files.page(job_id, step.folder, step.sha256)
    assert place.queue.damaged(job_id, step, "damaged") is None
    assert place.store.look(job_id)[1].failed == 1 and place.store.retry(job_id, "") == [1]
    again = place.queue.damaged(job_id, step, "damaged")
    assert again is not None and again.state == "queued", "a page that is read again does not fail"
    assert [page for _, page in place.work()] == [1]
    newer = place.queue.damaged(job_id, step, "the folder of before")
    assert newer == place.store.look(job_id)[2][0] and newer.state == "done", "what replaced it is intact"


def test_a_claim_that_is_over_changes_nothing_of_the_next_one(place):
    job_id = place.submit()
    over = place.claim()
    place.queue.requeue(over, 0.0, count=False)
    again = place.claim()
    place.queue.requeue(over, 0.0, count=False)
    place.queue.fail(over, "InvalidDocument", "of before", join=False)
    assert place.try_claim() is None and place.queue.cancelled([over, again]) == [over]
    assert place.queue.keep_only([again]) == 0
    place.parse(again)
    assert place.store.job(job_id).state is JobState.DONE


def test_a_page_that_goes_back_is_due_at_once_though_the_clock_is_put_back(place, monkeypatch):
    place.submit()
    place.queue.requeue(place.claim(), 0.0, count=False)
    earlier = time.time() - 3600
    monkeypatch.setattr("docparser.jobs.storage.queue.time.time", lambda: earlier)
    assert place.try_claim() is not None


@in_a_bucket_too
def test_a_page_that_is_gone_leaves_the_others_in_every_format(place):
    job_id = place.submit(2)
    place.work()
    job, _, steps, _ = place.store.look(job_id)
    place.files.remove_page(job_id, steps[0].folder)
    damage = Damage(place.queue, place.files, CollectorRegistry())
    service: Any = SimpleNamespace(results=Results(place.files, damage))
    models: Any = {}
    for _ in range(2):  # as a damaged page, and as a failed one that still names its folder
        files: dict[str, str] = {}
        with place.files.pictures() as pictures:
            assert pictures(job_id, steps[0].folder) == {}
            answer = json.loads(b"".join(stored_answer(service, job, steps, models, pictures, files)))
        (told,) = answer["result"]["docparser"]["pages"]
        assert told["page"] == 1 and told["error"]["kind"] == "damaged" and "pages/2/a.jpg" in files
        job, _, steps, _ = place.store.look(job_id)
        assert [step.state for step in steps] == ["failed", "done"]


@in_a_bucket_too
def test_every_file_of_a_page_is_checked(place):
    job_id = place.submit()
    place.work()
    name, sha256, _ = place.keep(job_id, 2, {"a.jpg": b"picture", "frozen.json": b"{}"})
    page, files = place.files.read_page(job_id, name, sha256)
    assert page["number"] == 2 and files == {"a.jpg": b"picture", "frozen.json": b"{}"}
    content = place.files.read_page_file(job_id, name, "page.json")
    place.files.remove_page(job_id, name)
    place.files.write_page(job_id, name, {"a.jpg": b"picture", "frozen.json": b"{ }"}, content)
    with pytest.raises(StorageDamaged, match=r"frozen\.json .* not what was written"):
        place.files.read_page(job_id, name, sha256)
    assert place.files.page_file(job_id, name, sha256, "a.jpg") == b"picture"
    with pytest.raises(FileNotFoundError):
        place.files.page_file(job_id, name, sha256, "b.jpg")
    with pytest.raises(StorageDamaged, match="not what was written"):
        place.files.check_copies(name, page, _copies(place, frozen=b"other"))
    place.files.check_copies(name, page, _copies(place, frozen=b"{}"))


def _copies(place, frozen: bytes) -> dict:
    contents = {"a.jpg": b"picture", "frozen.json": frozen}
    paths = {name: place.root / name for name in contents}
    for name, path in paths.items():
        path.write_bytes(contents[name])
    return paths


def test_a_full_disk_is_named_and_what_was_there_stays(tmp_path):
    place = Place(tmp_path)
    job_id = place.submit()
    connection = place.database._connection()
    (used,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {used}")  # SQLite's own way to be full
    with pytest.raises(DataDirFull, match="PARSER_DATA_DIR"):
        for _ in range(200):
            place.submit()
    assert place.store.job(job_id).state is JobState.PENDING
    place.files._min_free = 1 << 60
    with pytest.raises(DataDirFull, match="PARSER_MIN_FREE_MIB"):
        place.files.check_room()


def test_what_is_kept_is_on_the_disk_when_it_is_said_to_be(tmp_path, monkeypatch):
    """A file by its content, and its name by the folder's."""
    flushed: set[int] = set()
    fsync = os.fsync

    def seen(descriptor: int) -> None:
        flushed.add(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", seen)
    place = Place(tmp_path)

    def check(*paths: Path) -> None:
        assert {path.name for path in paths if path.stat().st_ino not in flushed} == set()
        flushed.clear()

    folder = place.files.folder(job_id := place.submit(1))
    check(folder / "document", folder / "submission.json", folder, place.files.jobs)
    name, _, _ = place.keep(job_id, 1)
    page = place.files.page_folder(job_id, name)
    check(page / "a.jpg", page / "page.json", page, page.parent)
    for write in (place.files.small.create, place.files.small.replace):
        write("small", b"x")
        check(tmp_path / "small")
    assert not place.files.small.create("small", b"y") and place.files.small.read("small") == b"x"
    with place.database.reading() as connection:
        found = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("synchronous", "foreign_keys")]
    assert found == [2, 1], "FULL: a commit lasts; and steps go with their job"


def test_a_submission_that_does_not_fit_leaves_nothing(open_place, monkeypatch):
    place = open_place()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("docparser.jobs.storage.data_folder.os.fsync", full)
    with pytest.raises(DataDirFull, match="no room left"):
        place.submit()
    assert place.files.job_ids() == set() and list(place.files.jobs.iterdir()) == []


def test_half_written_folders_are_removed_once_they_are_old(open_place, monkeypatch):
    place = open_place()
    job_id = place.submit()
    hidden = place.files.folder(job_id) / "pages" / ".000001-half"
    hidden.mkdir()
    (place.files.jobs / ("0" * 32)).mkdir()
    place.remove_leftovers()
    assert hidden.exists()  # it may be in the making
    monkeypatch.setattr(retention, "ORPHAN_S", -1.0)
    place.remove_leftovers()
    assert not hidden.exists()
    assert place.files.job_ids() == {job_id, "0" * 32}, "no row says of the second that it is over"


@in_a_bucket_too
def test_what_nothing_refers_to_is_removed_and_a_pages_only_folder_is_not(place, monkeypatch):
    ended, cancelled, running = (place.submit(1, flow=flow) for flow in "abc")
    for _ in range(2):
        place.parse(place.claim())
    place.claim()
    with place.database.writing() as connection:  # it was cancelled when its page was just read
        connection.execute("UPDATE jobs SET state = 'cancelled' WHERE id = ?", (cancelled,))
        connection.execute("DELETE FROM steps WHERE job_id = ?", (cancelled,))
    extra = {job: place.keep(job, 1)[0] for job in (ended, running)}
    alone = place.keep(ended, 2)[0]

    def left(job_id: str) -> dict[int, int]:
        return {number: len(folders) for number, folders in place.files.page_folders(job_id).items()}

    place.remove_leftovers()
    assert (left(ended), left(cancelled)) == ({1: 2, 2: 1}, {1: 1}), "they may be in the making"
    monkeypatch.setattr(retention, "ORPHAN_S", -60.0)
    place.remove_leftovers()
    assert (left(ended), left(cancelled), left(running)) == ({1: 1, 2: 1}, {}, {1: 1})
    assert not place.files.has_page(ended, extra[ended]) and place.files.has_page(ended, alone)


@in_a_bucket_too
def test_retention_by_age_and_by_size_spares_what_runs(place):
    jobs = [place.submit() for _ in range(3)]
    for _ in range(2):
        place.parse(place.claim())
    assert Retention(place.database, place.files, age_s=1e6, most_bytes=1 << 30).sweep() == 0
    with place.database.reading() as connection:
        (kept,) = connection.execute("SELECT sum(bytes) FROM jobs").fetchone()
    assert Retention(place.database, place.files, age_s=1e6, most_bytes=kept - 1).sweep() == 1
    assert not place.files.exists(jobs[0]) and place.files.exists(jobs[1])
    assert Retention(place.database, place.files, age_s=-1.0, most_bytes=1 << 30).sweep() == 1
    assert place.files.job_ids() == {jobs[2]}
    with pytest.raises(JobNotFound):
        place.store.job(jobs[0])


def test_of_each_removed_job_is_told_though_a_later_removal_fails(place, monkeypatch):
    jobs = [place.submit() for _ in range(2)]
    told: list[str] = []
    place.work()
    hide = place.files.hide

    def failing(job_id: str) -> str | None:
        if job_id == jobs[1]:
            raise StorageUnavailable("away")
        return hide(job_id)

    monkeypatch.setattr(place.files, "hide", failing)
    with pytest.raises(StorageUnavailable):
        Retention(place.database, place.files, age_s=-1.0, most_bytes=1 << 30, removed=told.append).sweep()
    assert told == [jobs[0]] and place.files.job_ids() == {jobs[1]}


def test_addresses_of_results_belong_to_one_job_and_expire(tmp_path, monkeypatch):
    links = Links(FolderFiles(tmp_path), 3600)
    _, _, _, _, _, job_id, permission, _ = links.path("a" * 32, "result.jsonl").split("/")
    assert 3595 < Links(FolderFiles(tmp_path), 3600).check(job_id, permission) <= 3600 + STEP_S, "another process"
    for other, sent in (("b" * 32, permission), (job_id, permission[:-1] + "0" * 2), (job_id, "9" + permission)):
        with pytest.raises(LinkRefused):
            links.check(other, sent)
    later = time.time() + 2 * 3600
    monkeypatch.setattr("docparser.jobs.links.time.time", lambda: later)
    with pytest.raises(LinkRefused, match="expired"):
        links.check(job_id, permission)


@pytest.mark.parametrize(
    "text, pages",
    [
        (None, [1, 2, 3, 4, 5]),
        ("2", [2]),
        ("4-", [4, 5]),
        ("5,1-2, 2", [1, 2, 5]),
        ("4-9~", [4, 5]),
        ("2-3~", [2, 3]),
    ],
)
def test_page_ranges(text, pages):
    assert pages_of_job(text, 5) == pages


@pytest.mark.parametrize("text", ["", "0", "3-2", "a", "1,,2", "-3", "1-2-3", "6", "5-9", "6-9~", "1-~", "2~", "1 2"])
def test_page_ranges_that_are_refused(text):
    with pytest.raises(InvalidJob, match="pageRanges"):
        pages_of_job(text, 5)


def test_two_processes_open_a_new_directory_at_once(tmp_path):
    with ThreadPoolExecutor(2) as threads:
        databases = list(threads.map(lambda _: repair.open_database(JobFolders(tmp_path, 0)), range(2)))
    for database in databases:
        database.check()
