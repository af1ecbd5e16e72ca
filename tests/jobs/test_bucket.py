# SPDX-License-Identifier: Apache-2.0
"""What only a bucket brings: no renaming, copies on the local disk, a server that is away or not ours."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from docparser import s3 as buckets
from docparser import server
from docparser.errors import (
    DataDirFull,
    Incompatible,
    LinkRefused,
    NotReady,
    StorageAway,
    StorageDamaged,
    StorageUnavailable,
)
from docparser.jobs.links import Links
from docparser.jobs.storage import backend, local_copies, retention
from docparser.jobs.storage.job_objects import JobObjects
from docparser.jobs.storage.retention import remove_job
from docparser.s3 import Bucket
from free_ports import free_port
from tests.support.job_place import Place, places
from tests.support.s3 import BucketServer
from tests.support.swift import NAMES_A_PAGE
from tests.support.wait import wait_for

JOB = "a" * 32
SUBMISSION = {"owner": "me", "file_name": "a.pdf"}


@pytest.fixture(scope="module", params=["moto", pytest.param("swift", marks=pytest.mark.long)])
def s3(request: pytest.FixtureRequest) -> BucketServer:
    """All of it over both servers."""
    return request.getfixturevalue("swift" if request.param == "swift" else "s3")


@pytest.fixture
def files(bucket: str, tmp_path: Path) -> Iterator[JobObjects]:
    made = JobObjects(bucket, tmp_path)
    yield made
    made.close()


@pytest.fixture
def open_place(bucket: str, url: str, tmp_path: Path) -> Iterator[Callable[..., Place]]:
    yield from places(tmp_path, url, bucket)


def keys(s3: BucketServer, url: str) -> list[str]:
    name, _, prefix = url.removeprefix("s3://").partition("/")
    found = s3.client().list_objects_v2(Bucket=name, Prefix=f"{prefix}/")
    return [entry["Key"].removeprefix(f"{prefix}/") for entry in found.get("Contents", ())]


def test_a_job_is_there_with_its_submission_and_not_before(files, s3, bucket):
    with pytest.raises(FileNotFoundError), files.document(JOB):
        pass
    size = files.keep_submission(JOB, io.BytesIO(b"%PDF-1"), SUBMISSION)
    assert size == 6 + len(json.dumps(SUBMISSION))
    assert keys(s3, bucket) == [f"jobs/{JOB}/document", f"submissions/{JOB}"]
    assert files.exists(JOB) and files.job_ids() == {JOB}
    with files.document(JOB) as path:
        assert path.read_bytes() == b"%PDF-1"
    s3.client().delete_object(Bucket=bucket.split("/")[2], Key=f"site/one/submissions/{JOB}")
    assert not files.exists(JOB) and not files.has_document(JOB) and files.job_ids() == set()


def test_a_document_is_sent_from_where_its_file_stands(files):
    document = io.BytesIO(b"head%PDF-1")
    document.seek(4)
    files.keep_submission(JOB, document, SUBMISSION)
    with files.document(JOB) as path:
        assert path.read_bytes() == b"%PDF-1"


def test_a_page_counts_with_its_page_json_and_not_before(files, s3, bucket, monkeypatch):
    files.keep_submission(JOB, io.BytesIO(b"%PDF-"), SUBMISSION)
    put = Bucket.put

    def broken(self, key, content):
        if key.endswith("page.json"):
            raise StorageUnavailable("gone")
        put(self, key, content)

    monkeypatch.setattr(Bucket, "put", broken)
    with pytest.raises(StorageUnavailable):
        files.keep_page(JOB, 1, {"number": 1}, {"a.jpg": b"x"})
    monkeypatch.undo()
    assert files.page_folders(JOB) == {} and any(key.endswith("a.jpg") for key in keys(s3, bucket))
    assert list(files.clean(time.time() - 3600)) == [(JOB, {})]
    assert any(key.endswith("a.jpg") for key in keys(s3, bucket)), "it may be in the making"
    assert list(files.clean(time.time() + 60)) == [(JOB, {})]
    assert not any(key.endswith("a.jpg") for key in keys(s3, bucket))


def test_pages_are_read_as_they_were_written(files):
    files.keep_submission(JOB, io.BytesIO(b"%PDF-"), SUBMISSION)
    folder, sha256, size = files.keep_page(JOB, 7, {"text": "ü"}, {"a.jpg": b"xy"})
    kept = {"a.jpg": hashlib.sha256(b"xy").hexdigest()}
    assert files.read_page(JOB, folder, sha256) == ({"text": "ü", "files": kept}, {"a.jpg": b"xy"})
    assert size == len(f'{{"text":"ü","files":{{"a.jpg":"{kept["a.jpg"]}"}}}}'.encode()) + 2
    assert files.page_folders(JOB) == {7: [folder]}
    with files.pictures() as pictures:
        found = pictures(JOB, folder)
        assert {name: path.read_bytes() for name, path in found.items()} == {"a.jpg": b"xy"}
    assert not found["a.jpg"].exists()
    with pytest.raises(StorageDamaged, match="not what was written"):
        files.page(JOB, folder, "0" * 64)
    files.remove_page(JOB, folder)
    with pytest.raises(StorageDamaged, match="cannot be read"):
        files.page(JOB, folder, sha256)


def test_marks_are_those_of_a_job_that_is_there(files):
    files.mark_cancelled(JOB)
    assert files.marks(JOB) == set()
    files.keep_submission(JOB, io.BytesIO(b"%PDF-"), SUBMISSION)
    files.mark_cancelled(JOB)
    files.mark_told(JOB, "done")
    assert files.cancelled(JOB) and files.submission(JOB) == SUBMISSION | {"cancelled": True, "told": ["done"]}
    files.forget_told(JOB)
    assert files.marks(JOB) == {"cancelled"}


def test_a_removal_that_breaks_off_is_ended_later(open_place, s3, bucket, monkeypatch):
    place = open_place()
    job_id = place.submit()
    place.work()
    monkeypatch.setattr(Bucket, "delete_all", lambda self, prefix: (_ for _ in ()).throw(StorageUnavailable("gone")))
    assert remove_job(place.database, place.files, job_id)
    monkeypatch.undo()
    assert place.files.removed() == {job_id} and place.files.job_ids() == set()
    place.remove_leftovers()
    assert keys(s3, bucket) != ["place.id"], "an hour has not passed"
    monkeypatch.setattr(retention, "ORPHAN_S", -60.0)
    place.remove_leftovers()
    assert keys(s3, bucket) == ["place.id"]


def test_the_search_for_leftovers_lists_no_job_by_itself(open_place, monkeypatch):
    place, listed = open_place(), []
    jobs = {place.submit() for _ in range(3)}
    place.work()
    entries = Bucket.entries

    def counted(self: Bucket, prefix: str = "") -> Iterator[buckets.Entry]:
        listed.append(prefix)
        return entries(self, prefix)

    monkeypatch.setattr(Bucket, "entries", counted)
    place.remove_leftovers()
    assert sorted(listed) == ["jobs/", "removed/", "submissions/"] and place.files.job_ids() == jobs


def test_a_start_waits_for_the_bucket(s3, bucket, url, tmp_path, caplog):
    s3.kill()
    files = JobObjects(bucket, tmp_path)
    with pytest.raises(StorageAway, match="PARSER_STORAGE_URL"):
        backend.open_postgres(url, files, start_s=0.0)
    with ThreadPoolExecutor(1) as thread:
        started = thread.submit(backend.open_postgres, url, files)
        wait_for(lambda: "Trying again" in caplog.text)
        s3.start()
        opened = started.result()
    opened.processes.close()
    opened.database.close()
    files.close()


@pytest.mark.parametrize(("error", "status"), [(StorageAway("away"), 1), (Incompatible("another's"), 2)])
def test_the_supervisor_starts_a_parser_again_whose_bucket_stayed_away(monkeypatch, capsys, error, status):
    def create_app(settings):
        raise error

    monkeypatch.setattr(server, "reads_whole_pages", lambda settings: True)
    monkeypatch.setattr(server, "create_app", create_app)
    monkeypatch.setattr(server.os, "umask", lambda mask: None)
    assert server.main() == status
    assert str(error) in capsys.readouterr().err


def test_a_removal_whose_transaction_fails_is_undone(files):
    files.keep_submission(JOB, io.BytesIO(b"%PDF-"), SUBMISSION)
    hidden = files.hide(JOB)
    assert not files.exists(JOB) and files.removed() == {JOB}
    files.show(JOB, hidden)
    assert files.exists(JOB) and files.removed() == set()
    assert files.hide("b" * 32) is None


def test_a_document_is_fetched_once_and_its_copy_goes_when_room_is_needed(files, monkeypatch):
    fetched = []
    download = Bucket.download

    def counted(self, key, path):
        fetched.append(key)
        return download(self, key, path)

    monkeypatch.setattr(Bucket, "download", counted)
    for job_id in (JOB, "b" * 32):
        files.keep_submission(job_id, io.BytesIO(b"%PDF-"), SUBMISSION)

    def read(_):
        with files.document(JOB) as path:
            return path.read_bytes()

    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(read, range(16))) == {b"%PDF-"}
    assert len(fetched) == 1
    monkeypatch.setattr(local_copies, "IDLE_BYTES", 5)
    with files.document(JOB) as first, files.document("b" * 32) as second:
        assert first.exists() and second.exists()
    assert [path.exists() for path in (first, second)].count(True) == 1
    files.remove(JOB)
    assert not first.exists()


def test_copies_of_a_killed_process_are_removed_and_those_of_a_living_one_not(bucket, tmp_path):
    living, killed = (local_copies.Copies(Bucket(bucket), tmp_path) for _ in range(2))
    killed._in_use.close()  # as its end would
    another = local_copies.Copies(Bucket(bucket), tmp_path)
    assert [made.folder.exists() for made in (living, killed, another)] == [True, False, True]
    for made in (living, another):
        made.close()
    assert list(tmp_path.iterdir()) == []


def test_a_copy_that_somebody_removed_is_fetched_again(files, tmp_path):
    files.keep_submission(JOB, io.BytesIO(b"%PDF-"), SUBMISSION)
    folder, _, _ = files.keep_page(JOB, 1, {}, {"a.jpg": b"x"})

    def read() -> bytes:
        with files.document(JOB) as path:
            return path.read_bytes()

    assert read() == b"%PDF-"
    shutil.rmtree(files._copies.folder)
    assert read() == b"%PDF-"
    another = local_copies.Copies(files._bucket, tmp_path)
    assert files._copies.folder.exists(), "it is marked again as a living process's"
    another.close()
    shutil.rmtree(files._copies.folder)
    with files.pictures() as pictures:
        assert pictures(JOB, folder)["a.jpg"].read_bytes() == b"x"


def test_a_disk_that_takes_no_copy_makes_no_document_missing(files, monkeypatch):
    files.keep_submission(JOB, io.BytesIO(b"%PDF-"), SUBMISSION)

    def failing(number: int) -> Callable[..., bool]:
        def download(*_: object) -> bool:
            raise OSError(number, os.strerror(number))

        return download

    for number, kind in (
        (errno.ENOSPC, DataDirFull),
        (errno.ENOENT, StorageUnavailable),
        (errno.EACCES, StorageUnavailable),
    ):
        monkeypatch.setattr(Bucket, "download", failing(number))
        with pytest.raises(kind, match="PARSER_SPOOL_DIR"), files.document(JOB):
            pass


def test_the_key_of_addresses_is_one_for_all_parsers(bucket, monkeypatch):
    with ThreadPoolExecutor(4) as threads:
        links = list(threads.map(lambda _: Links(local_copies.BucketFiles(Bucket(bucket)), 3600), range(4)))
    _, _, _, _, _, job_id, permission, _ = links[0].path(JOB, "result.jsonl").split("/")
    for other in links:
        other.check(job_id, permission)
    with pytest.raises(LinkRefused):
        links[1].check("b" * 32, permission)
    links[0]._keys.rotate(3600)
    links[0]._keys.forget()
    monkeypatch.setattr(local_copies, "GOOD_S", 0.0)
    with pytest.raises(LinkRefused):
        links[1].check(job_id, permission)


def test_a_server_that_knows_no_conditions_still_keeps_the_first(bucket, monkeypatch):
    place = Bucket(bucket)
    put = place._client.put_object

    def old(**request):
        if "IfNoneMatch" in request:
            answer = {"Error": {"Code": "NotImplemented", "Message": "A header implies functionality"}}
            raise buckets.botocore.exceptions.ClientError(answer, "PutObject")
        return put(**request)

    monkeypatch.setattr(place._client, "put_object", old)
    monkeypatch.setattr(buckets, "SETTLE_S", 0.0)
    assert place.put_new("a", b"1") and not place.put_new("a", b"2")
    assert place.get("a") == b"1"
    # Another looked at the same time, and writes a moment later.
    monkeypatch.setattr(buckets, "time", SimpleNamespace(sleep=lambda seconds: place.put("b", b"2")))
    assert not place.put_new("b", b"1") and place.get("b") == b"2"


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        ("AccessDenied", 403, StorageUnavailable),
        ("SlowDown", 503, StorageAway),
        ("TooManyRequests", 429, StorageAway),
        ("NoSuchBucket", 404, StorageAway),
        ("NoSuchKey", 404, StorageUnavailable),
    ],
)
def test_what_a_server_refuses_it_refuses_another_time_too(files, monkeypatch, code, status, kind):
    answer = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}

    def refuse(**_: object) -> None:
        raise buckets.botocore.exceptions.ClientError(answer, "PutObject")

    monkeypatch.setattr(files._bucket._client, "put_object", refuse)
    with pytest.raises(StorageUnavailable, match=code) as caught:
        files.small.replace("a", b"")
    assert type(caught.value) is kind and code in files.failure


def test_small_files_are_kept_in_mind_until_they_are_written(bucket):
    mine, other = (local_copies.BucketFiles(Bucket(bucket)) for _ in range(2))
    for content in (b"1", b"2"):
        mine.replace("a", content)
        assert (mine.read("a"), mine.names("")) == (content, ["a"])
    other.replace("a", b"3")
    assert mine.read("a") == b"2", "for some seconds"
    mine.remove("a")
    assert mine.read("a") is None and mine.names("") == []


def test_a_database_belongs_to_the_place_that_it_saw_first(open_place, s3, tmp_path, url):
    open_place()
    with pytest.raises(Incompatible, match="place"):
        Place(tmp_path, url=url, storage=s3.bucket())
    with pytest.raises(Incompatible, match="place"):
        Place(tmp_path, url=url)


def test_an_empty_variable_is_one_that_is_not_set(bucket, monkeypatch):
    for name in ("AWS_CA_BUNDLE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_PROFILE"):
        monkeypatch.setenv(name, "")
    place = Bucket(bucket)
    place.probe()
    assert place._client._endpoint.http_session._verify, "an empty AWS_CA_BUNDLE would verify nothing"


def test_a_proxy_of_the_environment_is_not_asked(bucket, monkeypatch):
    """Docker gives its client's proxy to every container; here nobody listens there."""
    for name in ("http", "https", "no"):
        monkeypatch.delenv(f"{name.upper()}_PROXY", raising=False)
        monkeypatch.delenv(f"{name}_proxy", raising=False)
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{free_port()}")
    Bucket(bucket).probe()


def test_listings_of_several_pages(bucket):
    place = Bucket(bucket)
    names = [f"{number:02d}/{part}" for number in range(NAMES_A_PAGE + 2) for part in "ab"]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda name: place.put(name, b"x"), names))
    assert [entry.key for entry in place.entries("")] == names
    place.delete_all("")
    assert list(place.entries("")) == []


def test_what_is_wrong_is_said_in_words(files, s3, bucket, monkeypatch, tmp_path):
    missing = JobObjects("s3://no-such-bucket/x", tmp_path)
    for call in (missing.probe, missing.job_ids, lambda: missing.exists(JOB), missing.storage_id):
        with pytest.raises(StorageUnavailable, match=r"PARSER_STORAGE_URL: s3://no-such-bucket/x .*NoSuchBucket|404"):
            call()
    missing.close()
    s3.kill()
    with pytest.raises(StorageUnavailable, match="PARSER_STORAGE_URL: .*cannot be used.*127.0.0.1"):
        files.keep_submission(JOB, io.BytesIO(b"%PDF-"), SUBMISSION)
    with pytest.raises(StorageUnavailable, match="cannot be used"):
        files.check()
    s3.start()
    files.probe()
    files.check()
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "not an address")
    with pytest.raises(NotReady, match="PARSER_STORAGE_URL: .*AWS_ENDPOINT_URL"):
        Bucket(bucket)
