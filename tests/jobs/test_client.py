# SPDX-License-Identifier: Apache-2.0
"""The real client of the ``paddleocr`` package and its command line, from submission to downloaded results."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from paddleocr._api_client.async_client import AsyncPaddleOCRClient
from paddleocr._api_client.client import PaddleOCRClient
from paddleocr._api_client.errors import AuthError, InvalidRequestError, JobFailedError, RateLimitError
from paddleocr._api_client.models import PaddleOCRVLOptions

from docparser.clients.keys import digest
from tests.support.samples import PICTURE_NAME
from tests.support.samples import blank_pages as pdf


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "three.pdf"
    path.write_bytes(pdf(3))
    return str(path)


@pytest.fixture
def client(parser):
    with PaddleOCRClient(token="any", base_url=parser.url, client_platform="tests") as client:
        yield client


def test_a_file_from_submission_to_saved_pictures(client, file, tmp_path):
    result = client.parse_document(file_path=file, options=PaddleOCRVLOptions(visualize=True), page_ranges="1,3")
    assert [page.markdown_text.split(" <")[0][-6:] for page in result.pages] == ["page 1", "page 3"]
    assert result.data_info["numPages"] == 2 and result.pages[0].input_image_url.startswith("http://127.0.0.1")
    folder = tmp_path / "saved"
    folder.mkdir()
    client.save_document_parsing_result_resources(result, str(folder))
    assert {path.name for path in folder.iterdir()} == {
        f"page_000{page}_{name}" for page in (1, 3) for name in (PICTURE_NAME, "layout_det_res.jpg")
    }
    for page in result.pages:
        assert all(name in page.markdown_text for name in page.markdown_images)


def test_submitted_now_and_fetched_later_with_progress_and_batch(client, file):
    jobs = [client.submit_document_parsing(file_path=file, batch_id="batch-1") for _ in range(2)]
    for job in jobs:
        assert len(client.wait_document_parsing_result(job).pages) == 3
        status = client.get_status(job.job_id)
        assert (status.state, status.progress.total_pages, status.progress.extracted_pages) == ("done", 3, 3)
    batch = client.get_batch_status("batch-1")
    assert {status.job_id for status in batch.jobs} == {job.job_id for job in jobs}


def test_errors_come_as_the_clients_own(client, parser, file, tmp_path):
    with pytest.raises(InvalidRequestError, match="is not served here"):
        client.ocr(file_path=file)
    with pytest.raises(InvalidRequestError, match="pageRanges"):
        client.parse_document(file_path=file, page_ranges="x")
    with pytest.raises(InvalidRequestError, match="fetches no URLs"):
        client.parse_document(file_url="http://example.com/a.pdf")
    broken = tmp_path / "broken.pdf"
    broken.write_bytes(b"%PDF-1.4 broken")
    with pytest.raises(JobFailedError, match="file:"):
        client.parse_document(file_path=str(broken))


def test_the_async_client(parser, file):
    async def run():
        async with AsyncPaddleOCRClient(token="any", base_url=parser.url) as client:
            return await asyncio.gather(*(client.parse_document(file_path=file, page_ranges=str(n)) for n in (1, 2)))

    first, second = asyncio.run(run())
    assert "page 1" in first.pages[0].markdown_text and "page 2" in second.pages[0].markdown_text


def test_the_command_line(parser, file, tmp_path):
    folder = tmp_path / "saved"
    folder.mkdir()
    output = tmp_path / "result.json"
    command: list[str | Path] = [Path(sys.executable).parent / "paddleocr", *"api --model_type doc_parsing".split()]
    command += ["--base_url", parser.url, "--token", "any", "--file_path", file, "--page_ranges", "2-"]
    command += ["--visualize", "True", "--save_resources", folder, "--output", output]
    env = {**os.environ, "PADDLE_PDX_DISABLE_MODEL_SOURCE_CHECK": "True"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=env, check=False)
    assert done.returncode == 0, done.stderr
    assert [
        ("page 2" in page["markdownText"], "page 3" in page["markdownText"])
        for page in json.loads(output.read_text())["pages"]
    ] == [(True, False), (False, True)]
    assert len(list(folder.iterdir())) == 4


def test_a_full_queue_and_a_missing_key(start, file):
    vlm = start.vlm()
    parser = start.parser(PARSER_MAX_QUEUED_JOBS="1", PARSER_API_KEYS=f"sha256:{digest('right')}").wait()
    with PaddleOCRClient(token="wrong", base_url=parser.url) as client, pytest.raises(AuthError):
        client.parse_document(file_path=file)
    with PaddleOCRClient(token="right", base_url=parser.url) as client:
        with vlm.holding():
            job = client.submit_document_parsing(file_path=file)
            with pytest.raises(RateLimitError, match="PARSER_MAX_QUEUED_JOBS"):
                client.submit_document_parsing(file_path=file)
        client.wait_document_parsing_result(job)
        assert len(client.parse_document(file_path=file).pages) == 3  # the same call, later
