# SPDX-License-Identifier: Apache-2.0
"""What `GET /capabilities` says is what the service does."""

from __future__ import annotations

import importlib.metadata

import pytest

from bundle_version import VERSION
from docparser.contract.schemas import OutputOptions
from docparser.settings import Settings
from tests.support.parser_process import LIMITS


def test_what_it_says(service):
    answer = service.client.get("/capabilities").json()
    assert answer["errorCode"] == 0
    said = answer["result"]
    assert said["models"] == {
        "layout": {"model": "PP-DocLayoutV2", "demo": False},
        "vlm": {
            "model": "PaddleOCR-VL-0.9B",
            "demo": False,
            "tasks": ["ocr", "table", "formula", "chart"],
            "names": {
                "openai": ["PaddleOCR-VL-0.9B", "PaddleOCR-VL"],
                "jobs": ["PaddleOCR-VL-0.9B", "PaddleOCR-VL", "PaddleOCR-VL-1.5", "PaddleOCR-VL-1.6"],
            },
        },
    }
    limits = said["limits"]
    assert limits["bodyMib"] == int(LIMITS["PARSER_MAX_BODY_MIB"]) and limits["pages"] == int(
        LIMITS["PARSER_MAX_PAGES"]
    )
    assert limits["imagePixels"] == int(LIMITS["PARSER_MAX_IMAGE_PIXELS"]) and limits["fetchesUrls"] is False
    usual = Settings()
    assert (limits["queuedPages"], limits["queuedJobs"]) == (usual.max_queued_pages, usual.max_queued_jobs)
    assert (limits["requests"], limits["requestSeconds"]) == (usual.max_requests, usual.request_timeout_s)
    assert (limits["pageSeconds"], limits["pdfPagePixels"]) == (usual.page_timeout_s, usual.max_pdf_page_pixels)
    assert (limits["jobKeepHours"], limits["resultUrlHours"]) == (usual.job_keep_hours, usual.result_url_hours)
    assert said["confidence"] == {"doubtfulBelow": Settings().doubtful_below}
    assert said["versions"]["paddleocr"] == importlib.metadata.version("paddleocr")


def test_the_bundles_version_is_told_wherever_one_looks_for_it(service):
    said = service.client.get("/capabilities").json()["result"]["versions"]["bundle"]
    assert said == VERSION == service.client.get("/openapi.json").json()["info"]["version"]
    assert service.client.get("/health").json()["result"] == {"version": VERSION}
    assert f'docparser_build_info{{version="{VERSION}"}}' in service.client.get("/metrics").text


def test_the_formats_are_those_that_are_accepted(service):
    formats = service.client.get("/capabilities").json()["result"]["formats"]
    assert formats["documents"] == ["PDF", "PNG", "JPEG", "TIFF", "BMP", "WEBP", "GIF", "JPEG2000", "AVIF", "PPM"]
    described = service.client.get("/openapi.json").json()["paths"]["/parse"]["post"]["parameters"][0]["schema"]["enum"]
    assert formats["answers"] == described
    schema = OutputOptions.model_json_schema()["properties"]["outputFormats"]["anyOf"][0]["items"]
    assert formats["outputFormats"] == [schema["const"]] if "const" in schema else schema["enum"]


def test_the_names_are_those_that_are_accepted(service):
    names = service.client.get("/capabilities").json()["result"]["models"]["vlm"]["names"]
    assert [model["id"] for model in service.client.get("/v1/models").json()["data"]] == names["openai"]
    for name in names["jobs"]:
        refused = service.client.post("/api/v2/ocr/jobs", data={"model": name}, files={"file": ("a", b"")})
        assert refused.json()["msg"].startswith("file: the document is empty"), "the name was accepted"
    assert names["openai"][0] in names["jobs"]


@pytest.mark.parametrize("path", ["/health", "/health/ready"])
def test_load_balancers_may_ask_by_head(service, path):
    answer = service.client.head(path)
    assert answer.status_code == 200 and answer.content == b""
