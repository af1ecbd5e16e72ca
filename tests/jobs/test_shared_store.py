# SPDX-License-Identifier: Apache-2.0
"""What only PostgreSQL brings: parsers that write at the same time, broken connections, schemas of other releases."""

from __future__ import annotations

import contextlib
import threading
import time
import types
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

from docparser.errors import (
    DataDirFull,
    Incompatible,
    NotReady,
    OutcomeUnknown,
    QueueFull,
    StorageAway,
    StorageUnavailable,
)
from docparser.jobs.storage import backend
from docparser.jobs.storage.job_folders import JobFolders
from docparser.jobs.storage.reconcile import reconcile
from docparser.jobs.storage.retention import remove_job
from docparser.jobs.storage.states import JobState
from docparser.postgres import database as databases
from docparser.postgres import schema
from docparser.postgres.database import PostgresDatabase, Sessions
from docparser.postgres.transaction import PostgresTransaction
from tests.support.job_place import Place, places
from tests.support.wait import wait_for


@pytest.fixture
def open_place(url: str, tmp_path: Path) -> Iterator[Callable[..., Place]]:
    yield from places(tmp_path, url)


def query(url: str, statement: str) -> list[tuple]:
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(statement.encode()).fetchall()


def lose_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """COMMIT reaches PostgreSQL, and its answer does not come back."""
    execute = psycopg.Connection.execute

    def losing(self, statement, *arguments, **options):
        found = execute(self, statement, *arguments, **options)
        if statement == "COMMIT":
            self.close()
            raise psycopg.OperationalError("the connection is lost")
        return found

    monkeypatch.setattr(psycopg.Connection, "execute", losing)


def test_parsers_that_work_at_once_take_each_page_once_and_end_each_job(open_place):
    places = [open_place() for _ in range(3)]
    jobs = [places[number % 3].submit(number % 4 + 1, flow=f"client {number % 2}") for number in range(12)]
    for place in places:
        place.lengths = {job_id: number % 4 + 1 for number, job_id in enumerate(jobs)}
    with ThreadPoolExecutor(3) as threads:
        done = Counter(page for pages in threads.map(Place.work, places) for page in pages)
    assert done == Counter((job, page) for job in jobs for page in range(1, places[0].lengths[job] + 1))
    assert {places[0].store.job(job_id).state for job_id in jobs} == {JobState.DONE}


def test_two_last_pages_that_end_at_once_end_the_job(open_place, monkeypatch):
    """Each transaction is held open until the other one has begun, or waits for it."""
    places = [open_place(), open_place()]
    job_id = places[0].submit(2)
    claims = [places[0].claim(), places[1].try_claim()]
    assert claims[1] is not None
    both = threading.Barrier(2)
    execute = PostgresTransaction.execute

    def slow(self, statement, values=()):
        found = execute(self, statement, values)
        if statement.startswith("UPDATE steps SET state = 'failed'"):
            with contextlib.suppress(threading.BrokenBarrierError):  # the other one waits for the lock
                both.wait(1.0)
        return found

    monkeypatch.setattr(PostgresTransaction, "execute", slow)
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda place, claim: place.queue.fail(claim, "Lost", "lost", join=False), places, claims))
    assert places[0].store.job(job_id).state is JobState.FAILED


def test_limits_and_keys_are_for_all_parsers_together(open_place):
    places = [open_place(jobs=5) for _ in range(3)]

    def submit(number: int) -> str:
        try:
            return places[number % 3].submit(key=f"key {number // 3}")
        except QueueFull:
            return "full"

    with ThreadPoolExecutor(6) as threads:
        found = list(threads.map(submit, range(24)))
    assert len(set(found) - {"full"}) == 5 and places[0].store.load().pending_jobs == 5


def test_a_parser_hears_of_what_another_one_changed(open_place):
    first, second = open_place(), open_place()
    before = second.database.version()
    assert second.database.version() == before
    first.submit()
    wait_for(lambda: second.database.version() != before)


def test_a_parser_comes_back_after_its_session_broke_and_one_that_does_not_is_dead(url, tmp_path, monkeypatch):
    opened = backend.open_postgres(url, JobFolders(tmp_path, 0), grace_s=5.0)
    assert isinstance(opened.database, PostgresDatabase)
    other = Sessions(opened.database, grace_s=5.0)
    clock = time.monotonic()
    monkeypatch.setattr(databases, "time", types.SimpleNamespace(monotonic=lambda: clock))
    names = [other.name]
    mine = opened.processes
    assert mine.dead(names) == []
    query(url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid != pg_backend_pid()")
    wait_for(lambda: not held(url))
    mine.renew()
    assert mine.dead(names) == [], "it may come back"
    clock += 4
    other.renew()
    assert mine.dead(names) == []
    clock += 4
    assert mine.dead(names) == [], "it has come back"
    other.close()
    wait_for(lambda: len(held(url)) == 1)
    assert mine.dead(names) == []
    clock += 60
    assert mine.dead(names) == [], "nobody looked meanwhile: PostgreSQL itself may have been away"
    clock += 5
    assert mine.dead(names) == names
    mine.close()
    opened.database.close()


def test_a_parser_that_was_absent_once_has_all_of_its_time_again(url, tmp_path, monkeypatch):
    opened = backend.open_postgres(url, JobFolders(tmp_path, 0), grace_s=5.0)
    assert isinstance(opened.database, PostgresDatabase)
    other = Sessions(opened.database, grace_s=5.0)
    clock = time.monotonic()
    monkeypatch.setattr(databases, "time", types.SimpleNamespace(monotonic=lambda: clock))
    mine: Any = opened.processes

    def gone() -> bool:
        return mine.dead([other.name]) == [] and other.name in mine._absent

    other.close()
    wait_for(gone)
    other.renew()
    clock += 4
    assert mine.dead([]) == [], "it is back, and has no page"
    other.close()
    wait_for(lambda: len(held(url)) == 1)
    clock += 4
    assert mine.dead([other.name]) == []
    clock += 5
    assert mine.dead([other.name]) == [other.name]
    mine.close()
    opened.database.close()


def held(url: str) -> list[tuple]:
    return query(url, "SELECT objid FROM pg_locks WHERE locktype = 'advisory'")


def test_a_claim_whose_answer_was_lost_is_put_back(open_place, monkeypatch):
    place = open_place()
    job_id = place.submit(2)
    kept = place.claim()
    with monkeypatch.context() as lost:
        lose_answers(lost)
        with pytest.raises(OutcomeUnknown, match="PARSER_DATABASE_URL"):
            place.queue.claim()
    assert place.queue.claim() is None, "the step is this process's, which does not know it"
    assert place.queue.keep_only([kept]) == 1
    again = place.claim()
    assert (again.number, again.attempts) == (2, 1)
    place.parse(kept)
    place.parse(again)
    assert place.store.job(job_id).state is JobState.DONE


def test_a_finished_page_whose_answer_was_lost_is_finished(open_place, monkeypatch):
    place = open_place()
    job_id = place.submit(1)
    claim = place.claim()
    with monkeypatch.context() as lost:
        lose_answers(lost)
        with pytest.raises(OutcomeUnknown):
            place.parse(claim)
    (step,) = place.store.look(job_id)[2]
    record = place.record(step.folder)
    assert place.queue.finish(claim, record, join=False), "its folder must stay"
    assert not place.queue.finish(claim, place.record("another folder"), join=False)


def test_a_removal_whose_answer_was_lost_is_ended_later(open_place, monkeypatch):
    place = open_place()
    job_id = place.submit(1)
    place.work()
    with monkeypatch.context() as lost:
        lose_answers(lost)
        with pytest.raises(OutcomeUnknown):
            remove_job(place.database, place.files, job_id)
    reconcile(place.database, place.files, pages=False)
    assert place.files.job_ids() == set()


def test_a_submission_that_failed_with_the_connection_counts_only_if_it_has_a_row(open_place):
    place = open_place()
    lost, kept = place.submit(1), place.submit(1)
    for job_id in (lost, kept):
        place.files.mark_unsure(job_id)
    with place.database.writing() as transaction:
        transaction.execute("DELETE FROM jobs WHERE id = ?", (lost,))
    reconcile(place.database, place.files, young_s=60.0, pages=False)
    assert place.files.job_ids() == {lost, kept}, "its row may still come"
    reconcile(place.database, place.files, pages=False)
    assert place.files.job_ids() == {kept}


def test_a_database_of_an_older_day_learns_of_the_folders_that_it_does_not_know(open_place):
    place = open_place()
    job_id = place.submit(2, key="k")
    place.parse(place.claim())
    with place.database.writing() as transaction:
        transaction.execute("DELETE FROM jobs")
    reconcile(place.database, place.files, pages=False)
    assert place.work() == [(job_id, 2)] and place.submit(key="k") == job_id


def test_a_broken_connection_is_left_and_the_next_transaction_has_another(open_place, url):
    place = open_place()
    place.submit()
    query(url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid != pg_backend_pid()")
    wait_for(lambda: not held(url))
    assert place.store.load().pending_jobs == 1


def test_a_zero_byte_is_kept_as_the_sign_for_what_cannot_be_shown(open_place):
    place = open_place()
    assert place.submit(flow="a\0b") and place.claim().job.flow == "a\ufffdb"


def test_while_postgresql_is_away_everything_says_so_at_once(postgres, open_place):
    place = open_place()
    job_id = place.submit()
    postgres.kill()
    try:
        for call in (place.submit, place.queue.claim, place.queue.reclaim, place.database.version):
            with pytest.raises(StorageUnavailable, match=r"PARSER_DATABASE_URL: the job database jobs\d+ at 127"):
                call()
    finally:
        postgres.start()
    wait_for(lambda: works(place))
    assert place.store.job(job_id).state is JobState.PENDING


def works(place: Place) -> bool:
    try:
        place.store.load()
    except StorageUnavailable:
        return False
    return True


MORE = "ALTER TABLE jobs ADD COLUMN note TEXT"
KNOWN = max(schema.MIGRATIONS)


class TestSchema:
    def upgrade(self, url: str, more: str | None = None, oldest: int = 1) -> int:
        migrations = schema.MIGRATIONS | ({} if more is None else {KNOWN + 1: more})
        database = PostgresDatabase(url)
        with database.writing() as transaction:
            before = schema.upgrade(transaction, migrations, oldest)
        database.close()
        return before

    def test_parsers_that_start_together_make_it_once(self, url):
        with ThreadPoolExecutor(3) as threads:
            before = list(threads.map(lambda _: self.upgrade(url), range(3)))
        assert sorted(before) == [0, KNOWN, KNOWN]
        assert ("jobs_by_owner",) in query(url, "SELECT indexname::text FROM pg_indexes WHERE tablename = 'jobs'")

    def test_a_newer_release_adds_to_it_and_this_one_goes_on(self, open_place, url):
        old = open_place()
        job_id = old.submit(12)
        for _ in range(10):  # psycopg would have prepared its statements by now, for rows as they were
            old.parse(old.claim())
        assert self.upgrade(url, MORE) == KNOWN
        assert old.work() == [(job_id, 11), (job_id, 12)]
        later = open_place()
        later.submit(1)
        assert len(later.work()) == 1
        assert query(url, "SELECT version, oldest FROM docparser_schema") == [(KNOWN + 1, 1)], "nothing goes back"

    def test_a_release_that_is_too_old_refuses_it(self, open_place, url):
        place = open_place()
        self.upgrade(url, MORE, oldest=KNOWN + 1)
        words = f"for releases that know version {KNOWN + 1} at least; this release knows {KNOWN}"
        with pytest.raises(Incompatible, match=words):
            open_place()
        with pytest.raises(Incompatible):
            place.database.check()

    def test_tables_of_another_program_are_not_touched(self, open_place, url):
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE TABLE jobs (notes TEXT)")
        with pytest.raises(Incompatible, match=r"tables of another program \(jobs\)"):
            open_place()

    def test_a_database_belongs_to_one_directory(self, open_place, url, tmp_path):
        open_place()
        with pytest.raises(Incompatible, match="All parsers of one database share one PARSER_DATA_DIR"):
            Place(tmp_path / "another", url=url)

    def test_lost_tables_are_named(self, open_place, url):
        place = open_place()
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("DROP SCHEMA public CASCADE")
            connection.execute("CREATE SCHEMA public")
        with pytest.raises(StorageUnavailable, match="has lost its tables"):
            place.database.check()
        with pytest.raises(StorageUnavailable, match="PARSER_DATABASE_URL"):
            place.submit()


@pytest.mark.parametrize(
    ("error", "named"),
    [
        (psycopg.errors.DiskFull, DataDirFull),
        (psycopg.OperationalError, StorageAway),
        (psycopg.errors.UndefinedTable, StorageUnavailable),
        (psycopg.IntegrityError, psycopg.IntegrityError),
    ],
)
def test_what_errors_of_postgresql_mean(monkeypatch, error, named):
    """And nobody asks a server again at once that has just refused."""
    database, tried = PostgresDatabase("postgresql://127.0.0.1:1/jobs"), []
    with pytest.raises(Exception, match="why") as caught, database._named_errors():
        raise error("why")
    assert type(caught.value) is named

    def refuse(*_: object, **__: object) -> None:
        tried.append(1)
        raise psycopg.OperationalError("refused")

    monkeypatch.setattr(psycopg.Connection, "connect", refuse)
    for _ in range(2):
        with pytest.raises(StorageAway, match="refused"):
            database.connect()
    assert len(tried) == 1
    monkeypatch.setattr(databases, "AGAIN_S", 0.0)
    database._away = None
    for _ in range(2):
        with pytest.raises(StorageAway):
            database.connect()
    assert len(tried) == 3


def test_a_connection_has_the_bounds_of_time_that_free_its_locks(url):
    """They are the session's, whatever the server's are."""
    database = PostgresDatabase(url)
    with database.reading() as transaction:
        found = {name: transaction.execute(f"SHOW {name}").fetchall()[0][0] for name in databases.SESSION}
    database.close()
    assert (found["statement_timeout"], found["lock_timeout"], found["synchronous_commit"]) == ("1min", "20s", "on")
    assert found["idle_in_transaction_session_timeout"] == "1min"


def test_a_url_that_cannot_be_read_is_named_without_its_password():
    with pytest.raises(NotReady, match="PARSER_DATABASE_URL: expected postgresql://") as caught:
        PostgresDatabase("postgresql://me:sec%ret@host:5432/jobs")
    assert "sec" not in str(caught.value) and caught.value.__suppress_context__


def test_a_server_that_is_not_there_is_named_without_its_password(tmp_path):
    url = "postgresql://me:geheim@127.0.0.1:1/jobs"
    with pytest.raises(StorageUnavailable, match="the job database jobs at 127.0.0.1 cannot be used") as caught:
        backend.open_postgres(url, JobFolders(tmp_path, 0), start_s=0.0)
    assert "geheim" not in str(caught.value)
