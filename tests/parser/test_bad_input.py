# SPDX-License-Identifier: Apache-2.0
"""Wrong requests get a 4xx that names the field, no worker ends, and a good request after all of them is answered."""

from __future__ import annotations

import base64

import pytest

from tests.support import samples
from tests.support.paths import ROOT
from tests.support.processes import children

ENDS_PDFIUM = ROOT / "tests/fuzz/findings/pdf/pdfium-ends.pdf"
GOOD = samples.image(size=(300, 400))
PNG = base64.b64decode(samples.image(size=(600, 800), color=(10, 200, 90)))
JPEG = base64.b64decode(samples.image("JPEG", size=(600, 800), color=(10, 200, 90)))
PDF = samples.pdf_bytes((595, 842), (595, 842))


def check(response, status: int, *words: str) -> None:
    body = response.json()
    assert set(body) == {"logId", "errorCode", "errorMsg"}
    assert response.status_code == body["errorCode"] == status, body
    assert body["logId"]
    for word in words:
        assert word in body["errorMsg"], body["errorMsg"]
    assert "Traceback" not in response.text and "/docparser" not in response.text


@pytest.fixture(scope="module", autouse=True)
def _still_works(_service):
    workers = children(_service.wait().process.pid)
    yield
    assert children(_service.process.pid) == workers, "the workers go on"
    assert _service.page(GOOD)["markdown"]["text"]


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("", ("file", "empty")),
        ("   ", ("file", "empty")),
        ("data:image/png;base64,", ("file", "empty")),
        ("data:image/png,abc", ("file", "data URL")),
        ("not base64!", ("file", "base64")),
        ("QUJD" * 10 + "Q", ("file", "base64")),
        ("http://127.0.0.1:9/page.png", ("file", "URL", "base64")),
        ("file:///etc/passwd", ("file", "URL")),
        (samples.encode(b"hello, world"), ("file", "PNG, JPEG")),
        (samples.encode(b"GIF89a" + b"\0" * 50), ("file", "GIF")),
        (samples.encode(b"PK\3\4" + b"\0" * 50), ("file", "ZIP archive", "unpack")),
        (samples.encode(PNG[:8]), ("file", "PNG")),
        (samples.encode(PNG[:30]), ("file", "PNG")),
        (samples.encode(JPEG[: JPEG.index(b"\xff\xda") + 4]), ("file", "JPEG", "damaged")),
        (samples.encode(JPEG[:20]), ("file", "JPEG")),
        (samples.encode(b"II*\0" + b"\xff" * 100), ("file", "TIFF")),
        (samples.encode(b"BM" + b"\xff" * 100), ("file", "BMP")),
        (samples.encode(b"RIFF\0\0\0\0WEBP" + b"\xff" * 100), ("file", "WEBP")),
        (samples.encode(b"%PDF-1.7\nnothing else"), ("file", "PDF", "damaged")),
        (samples.encode(PDF[:60]), ("file", "PDF")),
        (samples.locked_pdf(), ("file", "PDF", "encrypted")),
        (samples.pdf(), ("file", "PDF", "no pages")),
    ],
)
def test_bad_files(service, file, words):
    check(service.parse(file), 422, *words)


def test_the_file_type_must_be_right(service):
    check(service.parse(GOOD, fileType=0), 422, "fileType", "PNG", "send fileType 1")
    check(service.parse(samples.encode(PDF), fileType=1), 422, "fileType", "PDF", "send fileType 0")
    check(service.parse(GOOD, fileType=7), 422, "fileType", "0 or 1", "7")


def test_limits(service):
    check(service.parse(samples.image(size=(3100, 3100))), 413, "file", "3100 x 3100", "9000000")
    check(service.parse(samples.image(size=(40_000, 2))), 413, "file", "40000 x 2", "32000")
    check(service.parse(samples.pdf(*[(100, 100)] * 7)), 413, "file", "7 pages", "at most 6")
    check(service.parse(samples.tiff(*[(10, 10)] * 7)), 413, "7 pages")
    check(service.parse("A" * (9 << 20)), 413, "8 MiB")


def test_a_body_without_a_declared_length_is_limited_as_well(service):
    chunks = (b'{"file": "' if number == 0 else b"A" * (1 << 20) for number in range(10))
    check(service.client.post("/layout-parsing", content=chunks), 413, "8 MiB")


def test_a_decompression_bomb_is_refused_before_it_is_decoded(service):
    bomb = samples.png_of_zeros(30_000, 30_000)
    assert len(bomb) < 1_000_000
    check(service.parse(bomb), 413, "30000 x 30000")


def test_one_bad_page_names_itself_and_does_not_take_the_others(service):
    pages = base64.b64decode(samples.tiff((50, 50), (50, 50)))
    response = service.parse(samples.encode(pages[:-7500]), visualize=False)  # all of its 50 x 50 pixels
    assert response.status_code == 200
    first, second = response.json()["result"]["layoutParsingResults"]
    assert first["markdown"]["text"] and not second["markdown"]["text"]
    assert second["prunedResult"]["parsing_res_list"] == []
    report = response.json()["result"]["docparser"]
    (page,) = report["pages"]
    assert report["partial"] is True and page["page"] == 2 and page["error"]["kind"] == "invalid"
    assert "page 2 of the TIFF" in page["error"]["message"] and "truncated" in page["error"]["message"]


def test_a_page_whose_end_is_missing_is_read_and_says_so(service):
    pages = base64.b64decode(samples.tiff((50, 50), (50, 50)))
    result = service.parse(samples.encode(pages[:-1000]), visualize=False).json()["result"]
    assert all(page["markdown"]["text"] for page in result["layoutParsingResults"])
    (page,) = result["docparser"]["pages"]
    assert not result["docparser"]["partial"] and page["page"] == 2 and set(page) == {"page", "notes"}
    assert page["notes"][0]["kind"] == "cut_short" and "page 2 of the TIFF" in page["notes"][0]["message"]


def test_a_pdf_that_ends_its_process_at_once_costs_nobody_else_anything(service):
    """837 bytes that fuzzing found; PDFium traps on them, whatever the limits of memory and time."""
    workers, document = children(service.process.pid), samples.encode(ENDS_PDFIUM.read_bytes())
    check(service.parse(document), 422, "file", "page 1 ended the process that read it (SIG")
    assert service.page(samples.image())["markdown"]["text"]
    assert children(service.process.pid) == workers, "the workers go on"


def test_a_document_of_bad_pages_only_is_refused(service):
    pages = base64.b64decode(samples.tiff((50, 50), (50, 50)))
    check(service.parse(samples.encode(pages[:200])), 422, "file", "page 1 of the TIFF")  # 20 pixels of one tone


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"layoutThreshold": 1.5}, ("layoutThreshold", "1.5")),
        ({"layoutThreshold": {"text": -1}}, ("layoutThreshold", "-1")),
        ({"layoutThreshold": {"words": 0.5}}, ("layoutThreshold", "'words'", "0 to 24")),
        ({"layoutUnclipRatio": 0}, ("layoutUnclipRatio", "0")),
        ({"layoutUnclipRatio": [1, 2, 3]}, ("layoutUnclipRatio",)),
        ({"layoutMergeBboxesMode": "huge"}, ("layoutMergeBboxesMode", "'huge'")),
        ({"layoutShapeMode": "round"}, ("layoutShapeMode", "'round'")),
        ({"promptLabel": "poem"}, ("promptLabel", "'poem'")),
        ({"temperature": -1}, ("temperature", "-1")),
        ({"topP": 0}, ("topP", "0")),
        ({"topP": 1.1}, ("topP", "1.1")),
        ({"repetitionPenalty": 0}, ("repetitionPenalty",)),
        ({"maxNewTokens": 0}, ("maxNewTokens",)),
        ({"minPixels": 10, "maxPixels": 5}, ("minPixels", "maxPixels")),
        ({"vlmExtraArgs": {"best_of": 5}}, ("vlmExtraArgs", "'best_of'")),
        ({"vlmExtraArgs": {"spotting_min_pixels": 5}}, ("vlmExtraArgs", "'spotting_min_pixels'", "ocr_min_pixels")),
        (
            {"vlmExtraArgs": {"ocr_min_pixels": 9, "max_pixels": 5}},
            ("vlmExtraArgs.ocr_min_pixels (9)", "gs.max_pixels (5)"),
        ),
        (
            {"minPixels": 9, "vlmExtraArgs": {"seal_max_pixels": 5}},
            ("minPixels (9)", "vlmExtraArgs.seal_max_pixels (5)"),
        ),
        ({"outputFormats": ["odt"]}, ("outputFormats", "docx", "'odt'")),
        ({"markdownIgnoreLabels": "text"}, ("markdownIgnoreLabels", "'text'")),
        ({"useDocUnwarping": True}, ("useDocUnwarping", "no model")),
        ({"useDocOrientationClassify": True}, ("useDocOrientationClassify", "no model")),
        ({"useLayoutDetection": "perhaps"}, ("useLayoutDetection", "'perhaps'")),
    ],
)
def test_bad_options(service, options, words):
    check(service.parse(GOOD, **options), 422, *words)


def test_bad_bodies(service):
    def post(content: bytes, type: str = "application/json"):
        return service.client.post("/layout-parsing", content=content, headers={"Content-Type": type})

    check(post(b"{"), 422, "body", "not valid JSON")
    check(post(b""), 422, "body")
    check(post(b"[1]"), 422, "body")
    check(post(b"file=x", "application/x-www-form-urlencoded"), 422, "body")
    check(post(b'{"fileType": 1}'), 422, "file")
    check(post(b'{"file": null}'), 422, "file")
    check(post(b'{"file": 5}'), 422, "file", "5")
    check(post(b"\xff\xfe"), 422)


def test_errors_keep_the_log_id(service):
    assert service.parse("", logId="here").json()["logId"] == "here"
    assert service.parse(GOOD, logId="there", topP=7).json()["logId"] == "there"


def test_wrong_addresses(service):
    check(service.client.get("/layout-parsing"), 405, "GET", "POST")
    check(service.client.delete("/health"), 405, "DELETE")
    check(service.client.get("/nothing"), 404, "/nothing", "/docs")
