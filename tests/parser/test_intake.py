# SPDX-License-Identifier: Apache-2.0
"""From what a client sends to a file that exists as long as somebody works on it. No service is needed."""

from __future__ import annotations

import asyncio
import base64
import io
import tracemalloc
from pathlib import Path

import pytest

from docparser.documents.intake import DocumentIntake, UrlSource
from docparser.documents.spool import remove_stale, spooled
from docparser.errors import InvalidDocument, InvalidRequest, SpoolFull
from docparser.settings import Settings
from tests.support.full_disk import full_disk
from tests.support.wait import wait_for

PDF = b"%PDF-1.4 " + bytes(range(256)) * 10


def intake(folder: Path) -> DocumentIntake:
    return DocumentIntake(folder, UrlSource(Settings()))


def uncounted(size: int) -> None:
    """Nobody counts."""


def test_base64_becomes_a_file_for_as_long_as_the_context(tmp_path):
    async def scenario():
        async with intake(tmp_path).from_field(base64.b64encode(PDF).decode(), 0, uncounted) as document:
            path = Path(document.path)
            assert document.format == "PDF" and path.read_bytes() == PDF and path.parent == tmp_path
            assert path.stat().st_mode & 0o077 == 0, "only this user may read it"
        assert list(tmp_path.iterdir()) == []

    asyncio.run(scenario())


def test_an_upload_goes_to_the_disk_as_it_is_and_may_be_closed(tmp_path):
    async def scenario():
        upload = io.BytesIO(PDF)
        upload.seek(5)
        async with intake(tmp_path).from_upload(upload) as document:
            upload.close()
            assert document.format == "PDF" and Path(document.path).read_bytes() == PDF
        assert list(tmp_path.iterdir()) == []

    asyncio.run(scenario())


def test_a_document_from_an_address_is_written_and_counted_piece_by_piece(tmp_path):
    class Site(UrlSource):
        async def fetch(self, url, write):
            for start in range(0, len(PDF), 50):
                await write(PDF[start : start + 50])

    async def scenario(counted):
        async with DocumentIntake(tmp_path, Site(Settings())).from_field("http://a/b", 0, counted.append) as document:
            assert Path(document.path).read_bytes() == PDF and counted == [*range(50, len(PDF), 50), len(PDF)]

    asyncio.run(scenario([]))


def test_the_memory_of_a_document_is_free_while_its_pages_are_parsed(tmp_path):
    size = 8 << 20
    field = base64.b64encode(b"%PDF-" + bytes(size)).decode()

    async def scenario():
        async with intake(tmp_path).from_field(field, None, uncounted) as document:
            assert Path(document.path).stat().st_size > size
            # A thread that is done lets go of its work a moment after the result is there.
            wait_for(lambda: size > 4 * tracemalloc.get_traced_memory()[0])
            assert tracemalloc.get_traced_memory()[1] > size

    tracemalloc.start()
    try:
        asyncio.run(scenario())
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("content", "error", "words"),
    [
        (b"", InvalidRequest, "file: the document is empty"),
        (b"text", InvalidDocument, "neither an image nor a PDF"),
    ],
)
def test_an_upload_that_is_no_document(tmp_path, content, error, words):
    async def scenario():
        async with intake(tmp_path).from_upload(io.BytesIO(content)):
            pytest.fail("it was accepted")

    with pytest.raises(error, match=words):
        asyncio.run(scenario())


def test_a_full_disk_is_named(tmp_path):
    async def scenario():
        async with intake(tmp_path / "missing").from_upload(io.BytesIO(PDF)):
            pytest.fail("it was accepted")

    with pytest.raises(SpoolFull, match="PARSER_SPOOL_DIR"):
        asyncio.run(scenario())


def test_a_disk_that_fills_up_meanwhile_is_named(tmp_path):
    """What it did not take lies in the file's buffer, and is written once more when the file is closed."""
    with full_disk(1024), pytest.raises(SpoolFull, match="PARSER_SPOOL_DIR"), spooled(io.BytesIO(PDF), "PDF", tmp_path):
        pytest.fail("it was accepted")
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_fills_up_while_an_address_is_fetched_is_named(tmp_path):
    class Site(UrlSource):
        async def fetch(self, url, write):
            await write(PDF)

    async def scenario():
        async with DocumentIntake(tmp_path, Site(Settings())).from_field("http://a/b", 0, uncounted):
            pytest.fail("it was accepted")

    with full_disk(1024), pytest.raises(SpoolFull, match="PARSER_SPOOL_DIR"):
        asyncio.run(scenario())
    assert list(tmp_path.iterdir()) == []


def test_documents_of_a_killed_service_are_removed(tmp_path):
    remove_stale(tmp_path / "spool")  # makes it
    (tmp_path / "spool/docparser-x.pdf").touch()
    (tmp_path / "spool/docparser-folder/inside").mkdir(parents=True)
    (tmp_path / "spool/other").touch()
    remove_stale(tmp_path / "spool")
    assert [path.name for path in (tmp_path / "spool").iterdir()] == ["other"]
