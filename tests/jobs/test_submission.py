# SPDX-License-Identifier: Apache-2.0
"""What a submission asks for, the bounds that it meets, and what it leaves behind where it comes to nothing. The job
service runs without HTTP."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from docparser.errors import DataDirFull, InvalidJob, InvalidRequest, OutcomeUnknown, QueueFull, QuotaExceeded
from docparser.http.jobs import routes
from docparser.jobs.submission import Submission, check_submission
from tests.support.job_place import Place
from tests.support.job_service import ME, MODEL, Made, audited, keep, used


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"max_queued_jobs": 1}, QueueFull, "^1 jobs .*PARSER_MAX_QUEUED_JOBS"),
        ({"max_queued_pages": 1}, QueueFull, "^1 pages .*PARSER_MAX_QUEUED_PAGES"),
    ],
)
def test_bounds_of_the_queue(make_service: Made, settings, error, words):
    service = make_service("jobs=2/day", **settings)
    first = keep(service)
    for refused in (service.check_room, lambda: keep(service)):
        with pytest.raises(error, match=words):
            refused()
    assert service.files.job_ids() == {first}, "nothing is left of the one that was refused"
    assert used(service) == [1]


def test_room_is_looked_for_before_a_document_is_kept(make_service: Made):
    service = make_service(min_free_mib=1 << 30)
    for refused in (service.check_room, lambda: keep(service)):
        with pytest.raises(DataDirFull, match="PARSER_MIN_FREE_MIB"):
            refused()
    assert service.files.job_ids() == set()


def test_what_is_refused_leaves_nothing(make_service: Made, tmp_path: Path):
    service = make_service("jobs=1/day pages=1/day")
    with pytest.raises(InvalidRequest, match="promptLabel"):
        keep(service, optionalPayload={"promptLabel": "seal"})
    service.allowance.spend(ME, "pages")
    with pytest.raises(QuotaExceeded, match="pages=1/day"):
        keep(service)
    assert service.files.job_ids() == set() and (tmp_path / "audit.jsonl").read_text() == ""


def test_of_two_submissions_with_one_key_the_slower_leaves_nothing(make_service: Made, tmp_path: Path, monkeypatch):
    """Both looked for the key before either was inserted."""
    service = make_service("jobs=2/day")
    first = keep(service, "k", callbackUrl="https://hooks.example/")
    assert service.store.job(first).callback == {"url": "https://hooks.example/", "base": "http://parser.example"}
    assert keep(service, "k", callbackUrl="https://hooks.example/") == first
    monkeypatch.setattr(service.store, "find_key", lambda *_: None)
    assert keep(service, "k", callbackUrl="https://hooks.example/") == first
    assert service.files.job_ids() == {first} and used(service) == [1]
    assert audited(tmp_path, "outcome") == ["accepted", "repeated", "repeated"]


def test_a_submission_whose_outcome_is_not_known_stays_until_it_is(make_service: Made, monkeypatch):
    service = make_service()

    def lost(*_: object, **__: object) -> str:
        raise OutcomeUnknown("the connection is lost")

    monkeypatch.setattr(service.store, "insert", lost)
    with pytest.raises(OutcomeUnknown):
        keep(service)
    (job_id,) = service.files.job_ids()
    assert service.files.unsure(job_id)


def test_pages_that_are_tried_again_count_again(make_service: Made, tmp_path: Path):
    service, place = make_service("pages=9/day"), Place(tmp_path)
    job_id = place.submit(2, owner=ME)
    for kind in ("WorkerLost", "DocumentTooSlow"):
        place.queue.fail(place.claim(), kind, "why", join=False)
    place.files.mark_told(job_id, "failed")
    assert routes._retry(service, job_id, ME) == 1, "what took too long takes as long again"
    assert not place.files.marks(job_id)
    assert used(service) == [1]


def test_opening_and_joining_that_are_tried_again_are_no_pages(make_service: Made, tmp_path: Path):
    service, place = make_service("pages=9/day"), Place(tmp_path)
    job_id = place.submit(1, owner=ME)
    opening = place.queue.claim()
    assert opening is not None
    place.queue.fail(opening, "InvalidDocument", "why", join=False)
    place.files.mark_told(job_id, "failed")
    assert routes._retry(service, job_id, ME) == 0 and used(service) == [0]
    assert place.store.job(job_id).state == "running" and not place.files.marks(job_id)


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
