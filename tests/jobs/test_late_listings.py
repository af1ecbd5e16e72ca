# SPDX-License-Identifier: Apache-2.0
"""What Swift does and most S3 servers do not: it lists an object later than it has it, or never if it was killed in
between; and while a part of it is away, it says that there is no such bucket. Nothing is lost by either."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from docparser.errors import StorageUnavailable
from docparser.jobs.storage.job_objects import JobObjects
from docparser.jobs.storage.reconcile import reconcile
from tests.support.job_place import Place
from tests.support.swift import STORES, SwiftServer
from tests.support.wait import wait_for

JOB = "a" * 32
SUBMISSION = {"owner": "me", "file_name": "a.pdf"}


@pytest.fixture(scope="module")
def s3(swift: SwiftServer) -> SwiftServer:
    return swift


@pytest.fixture
def files(bucket: str, tmp_path: Path) -> Iterator[JobObjects]:
    made = JobObjects(bucket, tmp_path)
    made.keep_submission(JOB, io.BytesIO(b"%PDF-"), SUBMISSION)
    yield made
    made.close()


def test_a_page_has_all_its_pictures(files, s3, bucket):
    folder, sha256, _ = files.keep_page(JOB, 1, {}, {"a.jpg": b"x", "b.jpg": b"y"})
    for name in ("b.jpg", "page.json"):
        s3.leave_out(bucket, f"jobs/{JOB}/pages/{folder}/{name}")
    assert files.page_folders(JOB) == {}
    assert files.read_page(JOB, folder, sha256)[1] == {"a.jpg": b"x", "b.jpg": b"y"}
    with files.pictures() as pictures:
        assert {name: path.read_bytes() for name, path in pictures(JOB, folder).items()} == {
            "a.jpg": b"x",
            "b.jpg": b"y",
        }


def test_a_page_does_not_lose_its_pictures(files, s3, bucket):
    folder, sha256, _ = files.keep_page(JOB, 1, {}, {"a.jpg": b"x"})
    s3.leave_out(bucket, f"jobs/{JOB}/pages/{folder}/page.json")
    assert list(files.clean(time.time() + 60)) == [(JOB, {})]
    assert files.read_page(JOB, folder, sha256)[1] == {"a.jpg": b"x"}


def test_a_finished_page_is_not_parsed_again(s3, bucket, url, tmp_path):
    place = Place(tmp_path, url=url, storage=bucket)
    job_id = place.submit()
    place.work()
    ((folder,),) = place.files.page_folders(job_id).values()
    s3.leave_out(bucket, f"jobs/{job_id}/pages/{folder}/page.json")
    assert not reconcile(place.database, place.files)
    place.files.remove_page(job_id, folder)
    assert reconcile(place.database, place.files).pages == 1, "it is gone"
    place.die()


def test_marks_count(files, s3, bucket):
    files.mark_unsure(JOB)
    files.mark_cancelled(JOB)
    for name in ("unsure", "cancelled"):
        s3.leave_out(bucket, f"jobs/{JOB}/marks/{name}")
    assert files.marks(JOB) == set()
    assert files.unsure(JOB) and files.cancelled(JOB) and files.submission(JOB)["cancelled"]


@pytest.mark.parametrize("store", STORES)
def test_while_a_part_of_the_server_is_away_nothing_is_missing(files, s3, store):
    folder, sha256, _ = files.keep_page(JOB, 1, {"number": 1}, {"a.jpg": b"x"})
    looks = {
        "job": lambda: files.exists(JOB),
        "submission": lambda: files.read_submission(JOB),
        "document": lambda: files.has_document(JOB),
        "jobs": files.job_ids,
        "folders": lambda: files.page_folders(JOB),
        "page": lambda: files.page(JOB, folder, sha256),
    }
    failed = []
    with s3.without(store):
        for name, look in looks.items():
            try:
                assert look(), name
            except StorageUnavailable:
                failed.append(name)
    assert failed and files.failure

    def answers() -> bool:
        """Listings and objects: Swift's proxy leaves out a store that failed it for a while after it has come back."""
        try:
            files.probe()
            files.read_page(JOB, folder, sha256)
        except StorageUnavailable:
            return False
        return True

    wait_for(answers, what="the bucket")
    assert files.read_page(JOB, folder, sha256)[1] == {"a.jpg": b"x"}
