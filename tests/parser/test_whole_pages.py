# SPDX-License-Identifier: Apache-2.0
"""HunyuanOCR and Qwen2-VL read whole pages through the whole parser, without a layout model. Simulated are the VLMs,
which answer to their family's own prompts and refuse others."""

from __future__ import annotations

import base64
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pypdfium2
import pytest
from PIL import Image, ImageDraw

from reference.prompts import HUNYUAN_TASKS, QWEN2_VL_TASKS
from tests.support import samples
from tests.support.parser_process import JOBS, LIMITS, ParserProcess
from tests.support.processes import children
from tests.support.wait import wait_for
from tests.support.whole_page_vlm import WholePageVlm

pytestmark = pytest.mark.server

SIZE = 800, 1000  # of the page, width and height in pixels
TABLE = "<table><tr><td>Item</td><td>Price</td></tr><tr><td>Pen</td><td>3</td></tr></table>"
DOCUMENT = f"# Minutes\n\nThe council met.\n\n## 1.2 Costs\n\n{TABLE}\n\n$$x^2$$\n\nThe end."


@pytest.fixture(scope="module")
def _services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[WholePageVlm, ParserProcess]]]:
    """A parser with each family. They start side by side, for neither loads Paddle or a layout model."""
    vlms = {
        "HunyuanOCR": WholePageVlm("HunyuanOCR", HUNYUAN_TASKS, 4194304, 32768),
        "Qwen2-VL-2B-Instruct": WholePageVlm("Qwen2-VL-2B-Instruct", QWEN2_VL_TASKS, 3211264, 16384),
    }
    settings = {**LIMITS, "PARSER_MAX_IMAGE_PIXELS": "30000000", "PARSER_CONFIDENCE": "1"}
    running = {
        name: ParserProcess(tmp_path_factory.mktemp("whole"), VLM_URL=vlm.url, VLM_MODEL=name, **settings)
        for name, vlm in vlms.items()
    }
    try:
        yield {name: (vlms[name], service.wait()) for name, service in running.items()}
    finally:
        for service in running.values():
            service.end()
        for vlm in vlms.values():
            vlm.close()


@pytest.fixture
def vlm(_services: dict[str, tuple[WholePageVlm, ParserProcess]]) -> WholePageVlm:
    """HunyuanOCR's server, as new."""
    server, _ = _services["HunyuanOCR"]
    server.reset()
    return server


@pytest.fixture
def service(_services: dict[str, tuple[WholePageVlm, ParserProcess]], vlm: WholePageVlm) -> ParserProcess:
    """The parser that reads with HunyuanOCR."""
    return _services["HunyuanOCR"][1]


def page(size: tuple[int, int] = SIZE) -> bytes:
    """A page with two printed lines."""
    image = Image.new("RGB", size, "white")
    for top in (0.2, 0.5):
        ImageDraw.Draw(image).rectangle(
            (size[0] // 10, int(size[1] * top), size[0] // 2, int(size[1] * (top + 0.02))), "black"
        )
    with io.BytesIO() as buffer:
        image.save(buffer, "PNG")
        return buffer.getvalue()


def parsed(service: ParserProcess, document: bytes | None = None, **options: Any) -> dict[str, Any]:
    """The result of a document that must be read."""
    body = {"file": base64.b64encode(document or page()).decode(), "visualize": False, **options}
    answer = service.client.post("/layout-parsing", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["result"]


def entry(result: dict[str, Any]) -> dict[str, Any]:
    (only,) = result["layoutParsingResults"]
    return only


def blocks(result: dict[str, Any]) -> list[tuple[str, str, list[int]]]:
    listed = entry(result)["prunedResult"]["parsing_res_list"]
    return [(block["block_label"], block["block_content"], block["block_bbox"]) for block in listed]


def notes(result: dict[str, Any]) -> list[tuple[int | None, str]]:
    return [(note["block_id"], note["kind"]) for one in result["docparser"]["pages"] for note in one["blocks"]]


def test_a_document_is_read_as_markdown(service: ParserProcess, vlm: WholePageVlm):
    vlm.says["document"] = DOCUMENT
    result = parsed(service, visualize=True, layoutNms=True)
    assert vlm.tasks == [("document", SIZE)], "one question for the page"
    (request,) = vlm.requests
    assert request["max_tokens"] == 16384 and "temperature" not in request, "models.yaml's sampling, at the server"
    text = entry(result)["markdown"]["text"]
    assert text.startswith("# Minutes\n\nThe council met.\n\n## 1.2 Costs\n\n") and text.endswith("$$x^2$$\n\nThe end.")
    whole = [0, 0, *SIZE]
    assert [(label, box) for label, _, box in blocks(result)] == [
        (label, whole) for label in ("doc_title", "text", "paragraph_title", "table", "display_formula", "text")
    ]
    assert entry(result)["prunedResult"]["model_settings"]["prompt_label"] == "document"
    assert list(entry(result)["outputImages"]) == ["layout_det_res"]
    models = {
        "layout": {"model": None},
        "vlm": {"model": "HunyuanOCR", "demo": False, "wholePages": True, "general": False},
    }
    told = result["docparser"]
    assert told["models"] == models and not told["partial"]
    assert told["notes"] == [
        "layoutNms has no effect: HunyuanOCR, which is served here, reads whole pages without a layout model."
    ]


def test_spotted_texts_are_blocks_with_boxes_in_pixels(service: ParserProcess, vlm: WholePageVlm):
    vlm.says["spotting"] = "Total(100,190),(500,230)due 重(100,490),(500,530)"
    result = parsed(service, promptLabel="spotting")
    assert blocks(result) == [("text", "Total", [80, 190, 400, 230]), ("text", "due 重", [80, 490, 400, 530])]
    assert notes(result) == [] and entry(result)["markdown"]["text"] == "Total\n\ndue 重"
    corners = [[[80, top], [400, top], [400, top + 40], [80, top + 40]] for top in (190, 490)]
    assert entry(result)["prunedResult"]["spotting_res"] == {"rec_polys": corners, "rec_texts": ["Total", "due 重"]}
    # A page that is made smaller before it is sent has its boxes in pixels of the page all the same.
    large = 5000, 4000
    vlm.says["spotting"] = "Total(100,200),(500,300)"
    result = parsed(service, page(large), promptLabel="spotting")
    assert blocks(result) == [("text", "Total", [500, 800, 2500, 1200])]
    task, (width, height) = vlm.tasks[-1]
    assert task == "spotting" and 4194304 * 0.99 < width * height <= 4194304
    assert width / height == pytest.approx(5 / 4, rel=0.01)


def test_places_that_are_wrong_are_reported(service: ParserProcess, vlm: WholePageVlm):
    """Never a 5xx: boxes are cut to the page, and no text is lost."""
    vlm.says["spotting"] = "a(-5,10),(2000,99999)b(5,5),(5,9)(1,2),(3,4)" + "x" * 50 + "(1,2),(3"
    result = parsed(service, promptLabel="spotting")
    whole = [0, 0, *SIZE]
    assert [box for _, _, box in blocks(result)] == [[0, 10, *SIZE], whole, whole]
    assert notes(result) == [(None, "place")] and result["docparser"]["partial"]
    (note,) = result["docparser"]["pages"][0]["blocks"]
    assert note["message"].startswith("of what the VLM spotted there are 2 without a place on the page")


HOSTILE = {
    "nothing": "",
    "blanks": "\n \n",
    "tables": "<table>" * 2000,
    "a vast table": "<table><tr><td rowspan=99999999 colspan=99999999>x</table>",
    "formulas": "$$" * 3000 + "\\frac{" * 3000,
    "ticks": "`" * 5000,
    "titles": "# " * 3000,
    "marks": "\ue0000\ue001 <script>alert(1)</script> ![](http://127.0.0.1:9/x)",
    "braces": "{" * 5000,
    "places": "(1,2),(3,4)" * 500,
    "odd characters": "\u202e\u0000\ud7ff\U0010ffff",
}
# Markdown is read of a document alone; of the others, the answers that their own readers could stumble over.
TO_SPOTTING, TO_FORMULA = ("nothing", "braces", "places", "odd characters"), ("nothing", "formulas", "braces", "marks")


@pytest.mark.parametrize(
    ("task", "answer"),
    [
        *(("document", name) for name in HOSTILE),
        *(("spotting", name) for name in TO_SPOTTING),
        *(("formula", name) for name in TO_FORMULA),
    ],
)
def test_hostile_answers_never_end_in_a_fault(service: ParserProcess, vlm: WholePageVlm, task: str, answer: str):
    vlm.says[task] = HOSTILE[answer]
    body = {"file": base64.b64encode(page()).decode(), "promptLabel": task, "restructurePages": True}
    response = service.client.post("/layout-parsing", json=body)
    assert response.status_code in (200, 413), response.text[:300]


def test_all_blocks_of_a_page_have_the_confidence_of_its_one_answer(service: ParserProcess, vlm: WholePageVlm):
    vlm.says["document"] = DOCUMENT
    found = entry(parsed(service))["prunedResult"]["parsing_res_list"]
    assert {(block["confidence"], block["doubtful"]) for block in found} == {(0.99, False)} and len(found) > 3


def test_a_runaway_tail_is_cut_and_reported(service: ParserProcess, vlm: WholePageVlm):
    """While the VLM still writes, and without a second reading, which would take as long as the page."""
    row = "<tr><td>" + "</td><td>".join(["Pen", "3", "", ""]) + "</td></tr>"
    vlm.says["document"], vlm.piece_delay_s = f"# Prices\n\n<table>{row * 20_000}", 0.002
    result = parsed(service)
    wait_for(lambda: vlm.hang_ups == 1)  # before the whole text was written, which takes over a minute
    assert len(vlm.requests) == 1
    (_, table) = (content for _, content, _ in blocks(result))
    assert table.startswith("<table>") and len(table) < 3 * len(row)
    assert notes(result) == [(1, "repetition")], "the last block of the page"
    assert [block["doubtful"] for block in entry(result)["prunedResult"]["parsing_res_list"]] == [False, True]
    long = "A paragraph that says the same again and again. " * 20 + "Its end.\n\n"
    vlm.says["document"], vlm.piece_delay_s = long * 40, 0.0
    result = parsed(service)
    # The guard may look amid a piece: what stays is one, and the beginning of another.
    assert notes(result) == [(len(blocks(result)) - 1, "repetition")]
    assert len(entry(result)["markdown"]["text"]) < 2 * len(long) + 9


def test_what_the_vlm_refuses_is_the_clients_to_know(service: ParserProcess, vlm: WholePageVlm):
    for options, words in (
        ({"maxNewTokens": 100_000}, "max_tokens is too large"),
        ({"minPixels": 50_000_000}, "more pixels than 4194304"),
    ):
        answer = service.parse(samples.encode(page()), **options)
        assert answer.status_code == 422 and words in answer.text, answer.text
    answer = service.parse(samples.encode(page((30, 9000))))
    assert answer.status_code == 422 and "aspect ratio" in answer.text
    vlm.says["document"] = (500, "told to fail")
    answer = service.parse(samples.encode(page()))
    assert answer.status_code == 503 and "told to fail" in answer.text and answer.headers["Retry-After"]


def test_options_reach_the_vlm(service: ParserProcess, vlm: WholePageVlm):
    asked: dict[str, Any] = {
        "temperature": 0.5,
        "topP": 0.9,
        "repetitionPenalty": 1.1,
        "maxNewTokens": 99,
        "maxPixels": 200_000,
    }
    parsed(service, promptLabel="ocr", minPixels=1000, **asked)
    (request,) = vlm.requests
    sampling = {"temperature": 0.5, "top_p": 0.9, "repetition_penalty": 1.1, "max_tokens": 99}
    assert sampling.items() <= request.items()
    assert request["mm_processor_kwargs"] == {"min_pixels": 1000, "max_pixels": 200_000}
    ((task, (width, height)),) = vlm.tasks
    assert task == "ocr" and width * height <= 200_000
    answer = service.parse(samples.encode(page()), promptLabel="seal")
    assert answer.status_code == 422 and answer.json()["errorMsg"].startswith(
        "promptLabel: 'seal' is no task of HunyuanOCR"
    )


def test_a_pdfs_pages_have_the_resolution_of_paddlex(service: ParserProcess, vlm: WholePageVlm):
    result = parsed(service, samples.pdf_bytes((595, 842), (2000, 3000)))
    (first, one), (second, other) = vlm.tasks if vlm.tasks[0][1] == (1190, 1684) else vlm.tasks[::-1]
    assert first == second == "document" and one == (1190, 1684), "144 dpi: two pixels a point"
    assert other[0] * other[1] <= 4194304, "a page of 24 million pixels is made smaller"
    assert result["dataInfo"]["pages"] == [{"width": 1190, "height": 1684}, {"width": 4000, "height": 6000}]


def test_every_format_of_a_page(service: ParserProcess, vlm: WholePageVlm):
    vlm.says["document"] = DOCUMENT
    got: dict[str, httpx.Response] = {}
    for format in ("md", "html", "json", "xlsx", "docx", "pdf", "chunks", "zip"):
        got[format] = service.client.post("/parse", params={"format": format}, files={"file": ("a.png", page())})
        assert got[format].status_code == 200, f"{format}: {got[format].text[:300]}"
    assert "<h1>Minutes</h1>" in got["html"].text and ">Pen</td>" in got["html"].text
    chunks = [json.loads(line) for line in got["chunks"].text.splitlines()]
    assert [chunk["kind"] for chunk in chunks] == ["text", "table", "text"]
    assert chunks[1]["headings"] == ["Minutes", "1.2 Costs"]
    words = text_of_pdf(got["pdf"].content)
    assert [words.count(word) for word in ("Minutes", "council", "Pen", "end")] == [1, 1, 1, 1]
    for format, inside in (("xlsx", "xl/workbook.xml"), ("docx", "word/document.xml"), ("zip", "a.md")):
        assert inside in zipfile.ZipFile(io.BytesIO(got[format].content)).namelist()
    word = entry(parsed(service, outputFormats=["docx"]))["exports"]["docx"]["content"]
    assert b"council" in zipfile.ZipFile(io.BytesIO(base64.b64decode(word))).read("word/document.xml")


def text_of_pdf(content: bytes) -> str:
    pdf = pypdfium2.PdfDocument(content)
    return " ".join(one.get_textpage().get_text_range() for one in pdf)


def test_a_searchable_pdf_has_spotted_texts_once(service: ParserProcess, vlm: WholePageVlm):
    vlm.says["spotting"] = "Total(100,190),(500,230)due(100,490),(500,530)"
    form = {"options": '{"promptLabel": "spotting"}'}
    got = service.client.post("/parse", params={"format": "pdf"}, data=form, files={"file": ("a.png", page())})
    words = text_of_pdf(got.content)
    assert (words.count("Total"), words.count("due")) == (1, 1)


def test_a_job(service: ParserProcess, vlm: WholePageVlm):
    vlm.says["document"] = DOCUMENT
    answer = service.submit(page(), "a.png", optionalPayload='{"restructurePages": true}').json()["data"]
    told = "PaddleOCR-VL-1.6 was asked for, but HunyuanOCR is served here and reads the pages."
    assert answer["docparser"] == {"model": "HunyuanOCR", "notes": [told]}
    state = service.ended(answer["jobId"])
    assert state["state"] == "done", state
    text = service.client.get(f"{JOBS}/{answer['jobId']}/result?format=md").text
    assert "The council met." in text and "Costs" in text and "Pen" in text
    refused = service.submit(page(), "a.png", model="HunyuanOCR", optionalPayload='{"promptLabel": "seal"}')
    assert refused.status_code == 400 and "is no task of HunyuanOCR" in refused.json()["msg"]


def test_a_chat_completion(service: ParserProcess, vlm: WholePageVlm):
    vlm.says["document"] = DOCUMENT
    url = f"data:image/png;base64,{base64.b64encode(page()).decode()}"
    body = {
        "model": "HunyuanOCR",
        "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}],
    }
    answer = service.client.post("/v1/chat/completions", json=body).json()
    assert answer["choices"][0]["message"]["content"].startswith("# Minutes\n\nThe council met.")


def test_no_layout_model_is_loaded(service: ParserProcess):
    layout = service.client.get("/health/ready").json()["result"]["layout"]
    assert layout == {"model": None, "ready": True, "state": "ready", "workers": 1, "workersReady": 1, "engines": {}}
    models = service.client.get("/capabilities").json()["result"]["models"]
    assert models["vlm"]["tasks"] == ["document", "spotting", "ocr", "table", "formula", "chart"]
    (worker,) = children(service.process.pid)
    maps = Path(f"/proc/{worker}/maps").read_text()
    assert "cv2" in maps and "paddle/base" not in maps and "openvino" not in maps


def test_a_general_model_says_so(_services: dict[str, tuple[WholePageVlm, ParserProcess]]):
    vlm, service = _services["Qwen2-VL-2B-Instruct"]
    vlm.says["document"] = DOCUMENT
    result = parsed(service, page((4000, 3000)))
    ((task, (width, height)),) = vlm.tasks
    assert task == "document" and width * height <= 3211264
    assert vlm.requests[0]["max_tokens"] == 8192
    assert blocks(result)[0][:2] == ("doc_title", "Minutes")
    assert result["docparser"]["models"]["vlm"]["general"] is True
    answer = service.parse(samples.encode(page()), promptLabel="spotting")
    assert answer.status_code == 422 and "knows document, ocr" in answer.text
    vlm_said = service.client.get("/capabilities").json()["result"]["models"]["vlm"]
    assert vlm_said["general"] and vlm_said["wholePages"] and vlm_said["tasks"] == ["document", "ocr"]
