# SPDX-License-Identifier: Apache-2.0
"""What clients read of a job's stored pages: while they are joined, are removed, are damaged, or while the storage is
away. The job service runs without HTTP."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from docparser.contract.answers import PageReport
from docparser.errors import JobNotFound, StorageDamaged, StorageUnavailable
from docparser.http.answers import LONGEST_NOTES, report_headers
from docparser.http.jobs.results import _picture, stored_answer, stored_result
from docparser.jobs.storage.states import StepState
from tests.support.job_place import Place
from tests.support.job_service import MODEL, Made

NO_MODELS: Any = {}


def test_who_read_a_job_is_what_its_first_page_says(make_service: Made, tmp_path: Path):
    service, place = make_service(), Place(tmp_path)
    job_id = place.submit(2)
    place.parse(place.claim(), models={"vlm": {"model": "an earlier one"}})
    job, _, steps, _ = service.store.look(job_id)
    assert service.read_by(job, steps) == MODEL.served_name, "it still runs"
    place.parse(place.claim(), models={"vlm": {"model": "a later one"}})
    job, _, steps, _ = service.store.look(job_id)
    assert service.read_by(job, steps) == "an earlier one"
    service.files.remove_page(job_id, str(steps[0].folder))
    assert service.read_by(job, steps) == MODEL.served_name


@pytest.mark.parametrize("damage", [lambda path: path.write_bytes(b"y"), Path.unlink])
def test_pictures_alone_are_given_out_and_damage_is_kept_in_mind(
    make_service: Made, tmp_path: Path, damage: Callable[[Path], object]
):
    service, place = make_service(), Place(tmp_path)
    job_id = place.submit(2)
    place.parse(place.claim(), {"a.jpg": b"x", "frozen.json": b"{}"})
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
    damage(place.files.page_folder(job_id, str(place.store.look(job_id)[2][0].folder)) / "a.jpg")
    with pytest.raises(StorageDamaged):
        _picture(service, job_id, 1, "a.jpg")
    assert place.store.look(job_id)[2][0].state is StepState.FAILED
    place.queue.fail(place.claim(), "WorkerLost", "lost", join=False)
    assert place.store.retry(job_id, "") == [1, 2]
    with pytest.raises(JobNotFound, match="page 1 has no result"):
        _picture(service, job_id, 1, "a.jpg")


def replaced(place: Place, job_id: str, number: int) -> None:
    """As joining replaces a page, by one that ``joined`` read."""
    step = next(step for step in place.store.look(job_id)[2] if step.number == number)
    folder, sha256, _ = place.keep(job_id, number, {"a.jpg": b"new"}, models={"vlm": "joined"})
    with place.database.writing() as connection:
        connection.execute(
            "UPDATE steps SET folder = ?, sha256 = ? WHERE job_id = ? AND number = ?", (folder, sha256, job_id, number)
        )
    place.files.remove_page(job_id, step.folder)


def test_pages_that_are_joined_while_a_client_reads_them_stay_whole(make_service: Made, tmp_path: Path):
    service, place = make_service(), Place(tmp_path)
    job_id = place.submit(3)
    place.work()
    job, _, steps, _ = service.store.look(job_id)
    lines = service.results.lines(job, steps, "", NO_MODELS)
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


def test_what_a_cancelled_job_has_read_says_that_pages_are_missing(make_service: Made, tmp_path: Path):
    service, place = make_service(), Place(tmp_path)
    job_id = place.submit(2)
    place.parse(place.claim())
    service.store.cancel(job_id, "")
    job, _, steps, _ = service.store.look(job_id)
    (line,) = service.results.lines(job, steps, "", NO_MODELS)
    assert json.loads(line)["result"]["docparser"]["partial"] is True
    assert json.loads(b"".join(stored_result(service, job, steps, NO_MODELS, "")))["docparser"]["partial"] is True


def test_a_job_that_is_removed_while_a_client_reads_it_is_not_damaged(
    make_service: Made, tmp_path: Path, registry: CollectorRegistry, caplog: pytest.LogCaptureFixture
):
    service, place = make_service(), Place(tmp_path)
    job_id = place.submit(1)
    place.work()
    job, _, steps, _ = service.store.look(job_id)
    (tmp_path / "jobs" / job_id / "pages" / str(steps[0].folder) / "page.json").write_bytes(b"{}")
    for _ in range(2):  # two clients saw the page before it failed
        (line,) = service.results.lines(job, steps, "", NO_MODELS)
        assert json.loads(line)["result"]["docparser"]["pages"][0]["error"]["kind"] == "damaged"
    assert registry.get_sample_value("docparser_damaged_pages_total") == 1
    caplog.clear()
    service.purge(job_id, "")
    with pytest.raises(JobNotFound, match="removed"):
        list(service.results.lines(job, steps, "", NO_MODELS))
    assert registry.get_sample_value("docparser_damaged_pages_total") == 1 and caplog.text == ""


def test_notes_on_a_page_make_no_result_partial(make_service: Made, tmp_path: Path):
    service, place = make_service(), Place(tmp_path)
    job_id = place.submit(2)
    place.parse(place.claim(), page_notes=[{"kind": "blank", "message": "m"}])
    place.work()
    job, _, steps, _ = service.store.look(job_id)
    report = json.loads(b"".join(stored_result(service, job, steps, NO_MODELS, "")))["docparser"]
    assert report["pages"] and report["partial"] is False
    assert report_headers(report) == {"Document-Notes": '["page 1: m"]'}


@pytest.mark.parametrize("message", ["空", "空" * 57])  # an ideograph takes six bytes
def test_sentences_of_a_header_are_bounded(message: str):
    pages: list[PageReport] = [{"page": n, "notes": [{"kind": "blank", "message": message}]} for n in range(1, 190)]
    said = report_headers({"partial": False, "pages": pages, "notes": ["an option"]})["Document-Notes"]
    sentences = json.loads(said)
    assert said.isascii() and LONGEST_NOTES / 2 < len(said) <= LONGEST_NOTES + len(', "..."')
    assert sentences[:2] == ["an option", f"page 1: {message}"] and sentences[-1] == "..."


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


def test_a_page_that_is_read_while_the_storage_is_away_is_not_damaged(make_service: Made, tmp_path: Path, monkeypatch):
    service, place = make_service(), Place(tmp_path)
    job_id = place.submit(1)
    place.work()
    job, _, steps, _ = service.store.look(job_id)

    def reads() -> None:
        for read in (
            lambda: _picture(service, job_id, 1, "a.jpg"),
            lambda: list(service.results.lines(job, steps, "", NO_MODELS)),
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
