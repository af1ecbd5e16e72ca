# SPDX-License-Identifier: Apache-2.0
"""Files that wait for a later request: whose they are, how many there may be, and that nothing of them is left."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from docparser.contract.ocr import OcrRequest
from docparser.documents.intake import DocumentIntake, UrlSource
from docparser.errors import FileNotFound, TooBusy
from docparser.http.dialects import mistral
from docparser.http.dialects.mistral import UploadedFile, UploadedFiles
from docparser.settings import Settings


def kept_in(folder: Path) -> UploadedFiles:
    return UploadedFiles(Settings(spool_dir=folder, max_bodies_mib=16))


async def keep(files: UploadedFiles, owner: str = "a") -> UploadedFile:
    return await files.keep(io.BytesIO(b"words"), "a.pdf", owner=owner, holder=owner)


def test_a_file_is_its_clients_until_it_is_deleted(tmp_path: Path):
    async def use() -> None:
        files = kept_in(tmp_path)
        kept = await keep(files)
        assert Path(files.get(kept.id, "a").path).read_bytes() == b"words" and len(list(tmp_path.iterdir())) == 1
        with pytest.raises(FileNotFound, match="Upload it again"):
            files.delete(kept.id, "b")
        files.delete(kept.id, "a")
        with pytest.raises(FileNotFound):
            files.get(kept.id, "a")
        await keep(files)
        files.close()
        assert list(tmp_path.iterdir()) == []

    asyncio.run(use())


def test_requests_that_read_one_file_get_all_of_it_also_when_it_is_deleted_meanwhile(tmp_path: Path):
    content = b"%PDF-" + bytes(range(256)) * (1 << 14)

    async def use() -> None:
        files = kept_in(tmp_path)
        kept = await files.keep(io.BytesIO(content), "a.pdf", owner="a", holder="a")
        body = OcrRequest.model_validate({"document": {"type": "file", "file_id": kept.id}})
        intake = DocumentIntake(tmp_path, UrlSource(Settings()))
        state = SimpleNamespace(intake=intake, uploads=files, settings=Settings(public_url="http://parser"))
        request: Any = SimpleNamespace(app=SimpleNamespace(state=state), state=SimpleNamespace(key_id="a"))

        async def read() -> bytes:
            async with mistral._document(body, request) as document:
                return Path(document.path).read_bytes()

        reading = [asyncio.create_task(read()) for _ in range(3)]
        await asyncio.sleep(0)  # they begin
        files.delete(kept.id, "a")
        assert [found == content for found in await asyncio.gather(*reading)] == [True] * 3
        assert list(tmp_path.iterdir()) == []

    asyncio.run(use())


def test_small_files_take_descriptors_so_they_count_as_larger_ones(tmp_path: Path):
    async def use() -> None:
        files = kept_in(tmp_path)
        first, _ = await keep(files), await keep(files)
        with pytest.raises(TooBusy, match="one client has 8"):
            await keep(files)
        await keep(files, "b")
        files.delete(first.id, "a")
        await keep(files)
        files.close()

    asyncio.run(use())


def test_a_file_is_gone_after_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(mistral, "KEPT_S", 0.01)

    async def use() -> None:
        files = kept_in(tmp_path)
        kept = await keep(files)
        async with asyncio.timeout(10):
            while list(tmp_path.iterdir()):
                await asyncio.sleep(0.01)
        with pytest.raises(FileNotFound):
            files.get(kept.id, "a")

    asyncio.run(use())
