# SPDX-License-Identifier: Apache-2.0
"""Folders and buckets as storages of documents and outputs; parts and versions of documents; downloads; settings."""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import botocore.exceptions
import pytest

from corpus import assembling, records
from corpus.documents import Document, Unreadable, split, version
from corpus.job import Job
from corpus.page_service import PageRead
from corpus.reading import Downloads
from corpus.records import Outcome
from corpus.run import left_to_do
from corpus.storage import FolderStorage, Storage, open_storage
from docparser.errors import StorageAway, StorageUnavailable
from tests.support.s3 import BucketServer, S3Server
from tests.support.swift import SwiftServer


@pytest.fixture(params=["folder", "bucket", "swift"])
def storage(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Storage]:
    if request.param == "folder":
        yield FolderStorage(tmp_path / "storage")
        return
    server: BucketServer = request.getfixturevalue("swift" if request.param == "swift" else "s3")
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    yield open_storage(server.bucket(), "--out")


@pytest.mark.server
def test_objects_come_and_go(storage: Storage, tmp_path: Path) -> None:
    assert list(storage.entries()) == [] and storage.get("a/b.txt") is None
    storage.put("a/b.txt", b"one")
    storage.put("a/b.txt", b"two")
    (tmp_path / "file").write_bytes(b"three")
    storage.upload("c.txt", tmp_path / "file")
    assert storage.get("a/b.txt") == b"two"
    assert {(entry.key, entry.size) for entry in storage.entries()} == {("a/b.txt", 3), ("c.txt", 5)}
    assert [entry.key for entry in storage.entries("a/")] == ["a/b.txt"]
    assert storage.download("c.txt", tmp_path / "copy") and (tmp_path / "copy").read_bytes() == b"three"
    assert not storage.download("d.txt", tmp_path / "other")
    storage.delete("c.txt")
    storage.delete("c.txt")
    storage.delete_all("a/")
    assert list(storage.entries()) == []


@pytest.mark.parametrize(
    "name",
    [b"a/gbk\xb7\xa2.pdf", "发".encode() * 80 + b".pdf", b"/a.pdf", b"a//b.pdf", b"a/../../b.pdf"],
    ids=["gbk", "long", "absolute", "empty part", "above"],
)
def test_a_name_that_no_record_can_have_is_set_aside_and_ends_nothing(tmp_path: Path, name: bytes) -> None:
    job = Job(str(tmp_path / "in"), str(tmp_path / "out"), ("http://a/v1",), {}, {}, (), {}, False, 16, 5.0, 1)
    documents = [Document(os.fsdecode(name), 7, "0123456789ab"), Document("b.pdf", 7, "0123456789ab")]
    for _ in range(2):
        assert left_to_do(job, iter(documents), again=False) == (documents[1:], 0, [], [documents[0].name])
    (kept,) = records.keys(job.output(), records.ASIDE)
    told = json.loads(job.output().get(f"{records.ASIDE}{kept}{records.END}") or b"")
    assert told["document"] == documents[0].name and "its name" in told["reason"]


@pytest.mark.server
def test_a_record_says_that_a_document_is_done(storage: Storage) -> None:
    document, changed = Document("a/b c.pdf", 7, "0123456789ab"), Document("a/b c.pdf", 8, "ba9876543210")
    records.keep(storage, document, outcome := Outcome(document.name, 3))
    assert (records.ended(storage, document), records.ended(storage, changed)) == (outcome, None)
    records.keep(storage, changed, Outcome(changed.name, reason="damaged"))
    assert records.keys(storage, records.DONE) == {document.key}
    assert records.keys(storage, records.ASIDE) == {changed.key}
    records.forget(storage, changed, records.ASIDE)
    assert not records.keys(storage, records.ASIDE)


@pytest.mark.server
def test_a_document_has_the_parts_that_no_listing_names(
    swift: SwiftServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in swift.environment.items():
        monkeypatch.setenv(name, value)
    out = swift.bucket()
    job = Job(str(tmp_path), out, ("http://a/v1",), {}, {}, ("md",), {}, False, 2, 5.0, 1)
    document = Document("a.pdf", 7, "0123456789ab")
    parts = list(split(document, 5, job.pages_per_part))
    for part in parts:
        pages = range(part.first, part.last + 1)
        assembling.keep_part(job, part, [PageRead(page, {"page": page}, 0.1) for page in pages])
    swift.leave_out(out, parts[1].name)
    kept = assembling._kept(job, job.output(), document, 5)
    assert [page.number for page in kept] == [1, 2, 3, 4, 5]


def test_a_file_that_is_being_written_is_not_there(tmp_path: Path) -> None:
    storage = FolderStorage(tmp_path)
    with pytest.raises(StorageUnavailable), storage._part("a.json") as part:
        part.write_bytes(b"half")
        assert not list(storage.entries())
        raise OSError(28, "No space left on device")
    assert not list(tmp_path.iterdir())


def test_an_object_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: names.append(os.readlink(f"/proc/self/fd/{descriptor}")))
    FolderStorage(tmp_path).put("a.json", b"record")
    assert [name.endswith(".part") for name in names] == [True]


def refused(*_: object, **__: object) -> None:
    raise PermissionError(errno.EACCES, "Permission denied", "/storage/b")


def test_a_folder_that_cannot_be_listed_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "scandir", refused)
    with pytest.raises(
        StorageUnavailable, match=r"^/storage/b cannot be listed \(Permission denied\); make it readable"
    ):
        list(FolderStorage(tmp_path).entries())


def test_a_file_systems_own_folder_is_not_listed(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "lost+found/#7.pdf").write_bytes(b"%PDF")
    assert not list(FolderStorage(tmp_path).entries())


@pytest.mark.server
def test_an_object_that_alone_is_refused_is_no_storage_that_is_away(
    s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    job = Job(s3.bucket(), str(tmp_path), ("http://a/v1",), {}, {}, (), {}, False, 16, -1, 1)
    client = job.input()._client  # type: ignore[attr-defined]  # a Bucket's

    def refuse(**_: object) -> None:
        answer = {"Error": {"Code": "InvalidObjectState"}, "ResponseMetadata": {"HTTPStatusCode": 403}}
        raise botocore.exceptions.ClientError(answer, "GetObject")

    monkeypatch.setattr(client, "get_object", refuse)
    with pytest.raises(Unreadable, match=r"it may not be read \(.*InvalidObjectState"):
        job.fetch("a.pdf", tmp_path / "a.pdf")
    monkeypatch.setattr(client, "get_paginator", lambda _: SimpleNamespace(paginate=refuse))
    with pytest.raises(StorageUnavailable, match="InvalidObjectState"):
        job.fetch("a.pdf", tmp_path / "a.pdf")


def test_a_record_that_cannot_be_removed_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "unlink", refused)
    with pytest.raises(StorageUnavailable, match="Permission denied"):
        FolderStorage(tmp_path).delete("a.json")


def test_a_version_is_of_file_and_options() -> None:
    versions = {version(1, 2.0, {}), version(2, 2.0, {}), version(1, 3.0, {}), version(1, 2.0, {"formats": ["md"]})}
    assert len(versions) == 4 and all(len(one) == 12 for one in versions)


@pytest.mark.parametrize(
    ("pages", "most", "lengths"), [(1, 16, [1]), (16, 16, [16]), (17, 16, [8, 9]), (300, 16, None)]
)
def test_parts_are_nearly_as_long(pages: int, most: int, lengths: list[int] | None) -> None:
    parts = list(split(Document("a.pdf", 1, "v"), pages, most))
    found = [part.last - part.first + 1 for part in parts]
    assert sum(found) == pages and max(found) <= most and max(found) - min(found) <= 1
    assert lengths in (None, found)
    assert [part.first for part in parts[1:]] == [part.last + 1 for part in parts[:-1]]
    assert [part.whole for part in parts] == [len(parts) == 1] * len(parts)


def test_a_reader_has_the_servers_the_patience_and_the_threads_of_the_run(tmp_path: Path) -> None:
    job = Job("in", "out", ("http://a/v1", "http://b/v1"), {}, {}, (), {}, False, 16, 77.0, 3)
    own = job.parser_settings(tmp_path)
    assert (len(own.vlm_urls), own.vlm_patience_s, own.cpu_threads, own.page_timeout_s > 77) == (2, 77, 3, True)


def test_a_document_is_downloaded_once_for_all_its_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.pdf").write_bytes(b"content")
    (tmp_path / "work").mkdir()
    job = Job(str(tmp_path / "in"), str(tmp_path), ("http://a/v1",), {}, {}, (), {}, False, 16, 5.0, 1)
    asked: list[str] = []
    real = FolderStorage.download

    def counted(storage: FolderStorage, name: str, path: Path) -> bool:
        asked.append(name)
        if len(asked) == 1:
            path.write_bytes(b"con")
            raise StorageAway("away for a moment")
        return real(storage, name, path)

    monkeypatch.setattr(FolderStorage, "download", counted)
    monkeypatch.setattr("corpus.job.AGAIN_S", 0.01)
    downloads = Downloads(job, tmp_path / "work")
    together = threading.Barrier(4)
    read: list[bytes] = []

    def one() -> None:
        with downloads.document("a.pdf") as path:
            read.append(path.read_bytes())
            together.wait(10)

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read == [b"content"] * 4
    assert asked == ["a.pdf"] * 2, "the first one broke off"
    assert not os.listdir(tmp_path / "work")
    with pytest.raises(Unreadable, match="it is gone"), downloads.document("gone.pdf"):
        pass
