# SPDX-License-Identifier: Apache-2.0
"""No job is lost by what is missing: rows and folders that disagree at the start, and what changes under a running
store."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from docparser.errors import StorageUnavailable
from docparser.jobs.storage import repair, retention
from docparser.jobs.storage.backend import Keeper
from docparser.jobs.storage.database import APPLICATION_ID, VERSION
from docparser.jobs.storage.retention import remove_job
from docparser.jobs.storage.states import JobState
from tests.support.job_place import PICTURE, Place


def database_files(root: Path) -> list[Path]:
    return [path for name in ("", "-wal", "-shm") if (path := root / f"jobs.sqlite3{name}").exists()]


def copy_database(root: Path, to: Path) -> None:
    """As a backup tool of SQLite does, while the store is open."""
    with closing(sqlite3.connect(root / "jobs.sqlite3")) as source, closing(sqlite3.connect(to)) as copy:
        source.backup(copy)


def run_sql(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def age(root: Path) -> None:
    """Everything looks two hours old."""
    for path in (root / "jobs").rglob("*"):
        os.utime(path, (time.time() - 7200,) * 2)


class Service:
    """A place with its keeper."""

    def __init__(self, root: Path) -> None:
        self.place = Place(root)
        self.place.in_use.close()  # the keeper has its own
        self.keeper = Keeper(self.place.files, self.place.database, self.place.processes)

    def trouble(self) -> str:
        self.keeper.look()
        return self.keeper.trouble


@pytest.fixture
def service(tmp_path: Path) -> Service:
    return Service(tmp_path / "data")


def test_a_missing_database_is_rebuilt_and_nothing_is_swept(tmp_path, monkeypatch):
    place = Place(tmp_path)
    done, half, cancelled, new = place.submit(1), place.submit(2, key="k"), place.submit(), place.submit(3)
    place.store.cancel(cancelled, "")
    place.files.mark_cancelled(cancelled)
    for _ in range(2):
        place.parse(place.claim())
    before = place.store.look(half)[3]
    place.die()
    for path in database_files(tmp_path):
        path.unlink()
    age(tmp_path)
    again = Place(tmp_path)
    monkeypatch.setattr(retention, "ORPHAN_S", -1.0)
    again.remove_leftovers()
    assert again.files.job_ids() == {done, half, cancelled, new}
    again.lengths = place.lengths
    assert sorted(again.work()) == sorted([(half, 2), *((new, number) for number in (1, 2, 3))])
    assert again.store.job(cancelled).state is JobState.CANCELLED
    assert again.submit(key="k") == half, "the Idempotency-Key is known"
    assert again.store.look(half)[3] > before, "a client that follows the job's changes misses none"
    (page,) = again.store.look(done)[2]
    assert page.sha256, "a rebuilt row still tells damaged pages from whole ones"


def test_a_database_older_than_the_folders_learns_what_it_does_not_know(tmp_path):
    place = Place(tmp_path)
    early = place.submit(3)
    place.parse(place.claim())
    copy_database(tmp_path, tmp_path / "backup")
    late = place.submit(2)
    assert len(place.work()) == 4
    removed = place.submit(1)
    place.work()
    assert remove_job(place.database, place.files, removed)
    place.die()
    for path in database_files(tmp_path):
        path.unlink()
    (tmp_path / "backup").rename(tmp_path / "jobs.sqlite3")
    again = Place(tmp_path)
    again.lengths = place.lengths
    assert again.work() == [], "every page is on the disk"
    for job_id, pages in ((early, 3), (late, 2)):
        job, counts, _, _ = again.store.look(job_id)
        assert (job.state, counts.done) == (JobState.DONE, pages)
    assert again.files.job_ids() == {early, late}, "what was removed does not come back"


def test_a_database_newer_than_the_folders_parses_lost_pages_again(tmp_path):
    place = Place(tmp_path)
    job_id = place.submit(2)
    place.work()
    shutil.rmtree(place.files.page_folder(job_id, str(place.store.look(job_id)[2][1].folder)))
    place.die()
    again = Place(tmp_path)
    again.lengths = place.lengths
    assert again.work() == [(job_id, 2)]
    assert again.store.job(job_id).state is JobState.DONE


def test_a_lost_page_is_parsed_before_the_pages_are_joined(tmp_path):
    place = Place(tmp_path)
    job_id = place.submit(2)
    place.parse(place.claim(), join=True)
    place.files.remove_page(job_id, place.parse(place.claim(), join=True))
    repair.reconcile(place.database, place.files)
    assert place.claim().number == 2 and place.queue.claim() is None


@pytest.mark.parametrize("name", ["page.json", *PICTURE])
def test_a_damaged_page_that_is_read_again_is_not_taken_over_meanwhile(tmp_path, name: str):
    """Its folder is removed after the transaction; the service may end between them."""
    place = Place(tmp_path)
    job_id = place.submit(1)
    folder = place.parse(place.claim(), join=True)
    (place.files.page_folder(job_id, folder) / name).write_text('{"width": 1, "height": 2}')
    assert place.queue.read_again(place.claim(), {1: "damaged"})
    repair.reconcile(place.database, place.files)
    assert place.claim().number == 1


def test_a_page_that_was_written_before_a_crash_is_not_parsed_again(tmp_path):
    place = Place(tmp_path)
    job_id = place.submit(2)
    place.keep(job_id, place.claim().number)
    place.die()
    again = Place(tmp_path)
    again.lengths = place.lengths
    again.queue.reclaim()
    repair.reconcile(again.database, again.files)
    assert again.work() == [(job_id, 2)]


def test_an_interrupted_removal_is_ended_and_one_that_failed_is_undone(tmp_path, monkeypatch):
    place = Place(tmp_path)
    job_id, kept = place.submit(1), place.submit(1)
    place.work()
    place.files.hide(job_id)  # the process ends before its transaction does
    place.die()
    again = Place(tmp_path)
    with pytest.raises(Exception, match="there is no job"):
        again.store.job(job_id)

    def gone() -> None:
        raise StorageUnavailable("the file is gone")

    monkeypatch.setattr(again.database, "check_path", gone)
    with pytest.raises(StorageUnavailable):
        remove_job(again.database, again.files, kept)
    monkeypatch.undo()
    assert again.store.job(kept).state is JobState.DONE and again.files.job_ids() == {kept}


def test_a_job_that_runs_is_not_removed(place_with_job):
    place, job_id = place_with_job
    assert not remove_job(place.database, place.files, job_id) and place.files.job_ids() == {job_id}


@pytest.fixture
def place_with_job(tmp_path: Path) -> tuple[Place, str]:
    place = Place(tmp_path)
    return place, place.submit(2)


FOREIGN = ("CREATE TABLE notes (text)", "INSERT INTO notes VALUES ('not ours')")


@pytest.mark.parametrize(
    ("statements", "words"),
    [
        (FOREIGN, "another program"),
        ((*FOREIGN, "PRAGMA application_id = 77", "PRAGMA user_version = 1"), "another program .application_id 77"),
        (
            (f"PRAGMA application_id = {APPLICATION_ID}", f"PRAGMA user_version = {VERSION}", "CREATE TABLE jobs (id)"),
            "another program .*tables jobs",
        ),
        ((f"PRAGMA application_id = {APPLICATION_ID}", f"PRAGMA user_version = {VERSION + 1}"), "this release knows"),
    ],
    ids=["tables", "identity", "some", "newer"],
)
def test_a_database_that_is_not_ours_is_refused_and_not_touched(tmp_path, statements, words):
    place = Place(tmp_path)
    job_id = place.submit(1)
    place.die()
    for path in database_files(tmp_path):
        path.unlink()
    path = tmp_path / "jobs.sqlite3"
    run_sql(path, *statements)
    content = path.read_bytes()
    with pytest.raises(StorageUnavailable, match=words):
        Place(tmp_path)
    assert path.read_bytes() == content and database_files(tmp_path) == [path]
    path.rename(tmp_path / "elsewhere")  # as the message says
    assert Place(tmp_path).store.job(job_id).state is JobState.PENDING


def test_a_database_removed_while_in_use_is_noticed_and_made_again(service):
    place = service.place
    job_id = place.submit(3)
    place.parse(place.claim())
    for path in database_files(place.root):
        path.unlink()
    with pytest.raises(StorageUnavailable, match="is missing"):
        place.submit(1)
    assert len(place.files.job_ids()) == 2, "the document of the refused submission; JobService removes it"
    assert service.trouble() == "" and (place.root / "jobs.sqlite3").exists()
    assert place.store.look(job_id)[1].done == 1
    assert [page for job, page in place.work() if job == job_id] == [2, 3]


def test_a_claim_from_before_the_database_was_rebuilt_changes_nothing(service):
    place = service.place
    job_id = place.submit(1)
    claim = place.claim()
    for path in database_files(place.root):
        path.unlink()
    assert service.trouble() == ""
    place.parse(claim)
    assert place.store.look(job_id)[1].done == 0
    assert place.work() == [(job_id, 1)]


@pytest.mark.parametrize("removed", [0, 3], ids=["beside the WAL of the old one", "alone"])
def test_another_database_of_ours_put_in_place_is_used(service, tmp_path, removed):
    """SQLite would write the old one's WAL into it."""
    place = service.place
    early = place.submit(1)
    copy_database(place.root, tmp_path / "backup")
    late = place.submit(1)
    place.work()
    for path in database_files(place.root)[:removed]:
        path.unlink()
    (tmp_path / "backup").replace(place.root / "jobs.sqlite3")
    with pytest.raises(StorageUnavailable, match="replaced by another file"):
        place.store.job(early)
    age(place.root)
    assert service.trouble() == ""
    assert place.work() == []
    assert {place.store.job(job_id).state for job_id in (early, late)} == {JobState.DONE}


def test_a_foreign_database_put_in_place_is_named_until_it_is_moved_away(service, tmp_path):
    place = service.place
    job_id = place.submit(1)
    run_sql(tmp_path / "foreign", *FOREIGN)
    content = (tmp_path / "foreign").read_bytes()
    (tmp_path / "foreign").replace(place.root / "jobs.sqlite3")
    for _ in range(2):
        assert "another program" in service.trouble()
    with pytest.raises(StorageUnavailable, match="another program"):
        service.keeper.check()
    (place.root / "jobs.sqlite3").rename(tmp_path / "moved")
    assert service.trouble() == "" and place.store.job(job_id).state is JobState.PENDING
    assert (tmp_path / "moved").read_bytes() == content


@pytest.mark.parametrize("content", [b"", b"no database" * 1000], ids=["empty", "garbage"])
def test_a_database_damaged_while_in_use_is_set_aside_and_made_again(service, content):
    place = service.place
    job_id = place.submit(2)
    place.parse(place.claim())
    (place.root / "new").write_bytes(content)
    (place.root / "new").replace(place.root / "jobs.sqlite3")
    assert service.trouble() == "" and place.work() == [(job_id, 2)]
    aside = [path for path in place.root.glob("jobs.sqlite3.damaged-*") if not path.name.endswith(("-wal", "-shm"))]
    assert [path.read_bytes() for path in aside] == [content]


def test_of_two_processes_that_find_the_damage_one_mends_it(service):
    other = Service(service.place.root)
    job_id = service.place.submit(1)
    (service.place.root / "new").write_bytes(b"no database" * 1000)
    (service.place.root / "new").replace(service.place.root / "jobs.sqlite3")
    assert "another process uses it" in service.trouble()
    assert other.trouble() == "" and service.trouble() == ""
    assert service.place.store.job(job_id) == other.place.store.job(job_id)
    assert len(list(service.place.root.glob("jobs.sqlite3.damaged-*[0-9a-f]"))) == 1


def test_damage_in_place_is_noticed(service):
    """Written over, with the file's identity kept."""
    place = service.place
    job_id = place.submit(1)
    run_sql(place.root / "jobs.sqlite3", "PRAGMA wal_checkpoint(TRUNCATE)")
    with (place.root / "jobs.sqlite3").open("r+b") as file:
        file.write(b"x" * 8192)
    with pytest.raises(StorageUnavailable):
        place.try_claim()
    assert service.trouble() == "" and place.work() == [(job_id, 1)]
    assert list(place.root.glob("jobs.sqlite3.damaged-*"))


def test_the_folder_of_jobs_gone_and_back(service, tmp_path):
    place = service.place
    job_id = place.submit(1)
    place.files.jobs.rename(tmp_path / "away")
    assert f"{place.files.jobs} is missing" in service.trouble()
    with pytest.raises(StorageUnavailable, match="PARSER_DATA_DIR"):
        place.submit(1)
    with pytest.raises(StorageUnavailable):
        place.files.check_room()
    assert not place.files.jobs.exists(), "an empty one in its place would hide the loss"
    (tmp_path / "away").rename(place.files.jobs)
    assert service.trouble() == "" and place.work() == [(job_id, 1)]


def test_the_whole_directory_gone_empty_and_back(service, tmp_path):
    place = service.place
    job_id = place.submit(1)
    place.root.rename(tmp_path / "away")
    assert "is missing" in service.trouble()
    place.root.mkdir()  # where a volume was mounted
    assert "Mount the volume again" in service.trouble()
    assert list(place.root.iterdir()) == [], "nothing begins anew there"
    place.root.rmdir()
    (tmp_path / "away").rename(place.root)
    assert service.trouble() == "" and place.work() == [(job_id, 1)]


def test_a_backup_put_in_the_directorys_place_is_adopted(service, tmp_path):
    place = service.place
    job_id = place.submit(2)
    place.parse(place.claim())
    backup = tmp_path / "backup"
    backup.mkdir()
    shutil.copytree(place.root / "jobs", backup / "jobs")
    place.root.rename(tmp_path / "old")
    backup.rename(place.root)
    assert service.trouble() == ""
    assert (place.root / "processes" / place.processes.name).exists()
    assert place.work() == [(job_id, 2)]


def test_a_folder_without_a_row_gets_one_while_the_store_runs(service, monkeypatch):
    """A backup unpacked into the directory, or a row lost with a database that was removed at the wrong moment."""
    place = service.place
    job_id = place.submit(1)
    with place.database.writing() as connection:
        connection.execute("DELETE FROM jobs")
    monkeypatch.setattr("docparser.jobs.storage.backend.COMPARE_S", -1.0)
    assert service.trouble() == ""
    assert place.try_claim() is None, "it may be in the making"
    age(place.root)
    assert service.trouble() == "" and place.work() == [(job_id, 1)]


def test_what_is_kept_is_for_its_owner_alone(tmp_path):
    before = os.umask(0)
    try:
        place = Place(tmp_path / "data")
        place.submit(1)
        place.work()
    finally:
        os.umask(before)
    open_to_others = [path for path in (tmp_path / "data").rglob("*") if path.stat().st_mode & 0o077]
    assert open_to_others == [] and (tmp_path / "data").stat().st_mode & 0o077 == 0
    place.die()
    for path in (place.files.jobs, *database_files(place.root)):
        path.chmod(path.stat().st_mode | 0o044)  # as a restored backup may leave them
    Place(place.root)
    assert [path for path in (place.files.jobs, *database_files(place.root)) if path.stat().st_mode & 0o077] == []
