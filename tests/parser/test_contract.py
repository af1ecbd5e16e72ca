# SPDX-License-Identifier: Apache-2.0
"""Requests as known clients send them, and the fields that these clients read from the answers."""

from __future__ import annotations

import base64
import io
import re

from PIL import Image

from docparser.contract.schemas import ParseRequest
from docparser.http import web_pages
from tests.support import samples
from tests.support.simulated_layout import BOXES
from tests.support.simulated_vlm import image_of, prompt_of, together


def test_the_answer_has_the_contracts_shape(service):
    body = service.parse(samples.image(), fileType=1, logId="mine").json()
    assert (body["logId"], body["errorCode"], body["errorMsg"]) == ("mine", 0, "Success")
    assert body["result"]["dataInfo"] == {"type": "image", "width": 1240, "height": 1754}
    (entry,) = body["result"]["layoutParsingResults"]
    assert set(entry) == {"prunedResult", "markdown", "outputImages", "inputImage"}
    blocks = entry["prunedResult"]["parsing_res_list"]
    assert [block["block_label"] for block in blocks] == [label for label, *_ in BOXES]
    assert set(blocks[0]) >= {"block_bbox", "block_label", "block_content", "block_id", "block_order"}
    assert [block["block_order"] for block in blocks] == [None, 1, 2, None, None, 3, 4, None]
    assert "input_path" not in str(entry["prunedResult"])


def test_a_long_page_is_one_page_with_the_boxes_where_they_are_on_it(service):
    result = service.parse(samples.image(size=(500, 2100)), visualize=False).json()["result"]
    assert result["dataInfo"] == {"type": "image", "width": 500, "height": 2100} and not result["docparser"]["pages"]
    (entry,) = result["layoutParsingResults"]
    blocks = entry["prunedResult"]["parsing_res_list"]
    assert entry["prunedResult"]["height"] == 2100 and len(blocks) == 3 * len(BOXES)
    expected = [part * 700 + int(top * 700) for part in range(3) for _, _, top, *_ in BOXES]
    assert [block["block_bbox"][1] for block in blocks] == expected
    labels = [block["block_label"] for block in blocks]
    assert labels.count("header") == labels.count("doc_title") == 1 and labels[8] == "text"
    assert len(entry["markdown"]["images"]) == 3


def test_markdown_leaves_page_furniture_out_and_embeds_pictures(service):
    entry = service.page(samples.image())
    text = entry["markdown"]["text"]
    header, number = entry["prunedResult"]["parsing_res_list"][0], entry["prunedResult"]["parsing_res_list"][-1]
    assert header["block_content"] == "OCR: block of 992 x 53" and header["block_content"] not in text
    assert number["block_content"] not in text
    assert text.startswith("# OCR: block of 992 x 106")
    assert "Price</td>" in text  # the table's OTSL became HTML
    ((path, picture),) = entry["markdown"]["images"].items()
    assert path in text
    assert Image.open(io.BytesIO(base64.b64decode(picture))).size == (496, 351)


def test_what_the_vlm_is_asked(service, vlm):
    service.page(samples.image())
    assert len(vlm.requests) == 7, "all blocks but the picture"
    prompts = sorted(map(prompt_of, vlm.requests))
    assert prompts == ["OCR:"] * 6 + ["Table Recognition:"]
    for request in vlm.requests:
        assert request["model"] == "PaddleOCR-VL-0.9B"
        assert request["temperature"] == 0
        assert request["max_completion_tokens"] == 4096
        assert request["mm_processor_kwargs"] == {"min_pixels": 112896, "max_pixels": 1003520}
        assert image_of(request).format == "JPEG"


def test_blocks_of_a_page_are_with_the_vlm_together(service, vlm):
    vlm.answer = together(7)
    service.page(samples.image())
    assert vlm.max_in_flight == 7


def test_weknora(service, vlm):
    body = {
        "file": samples.image(),
        "fileType": 1,
        "useDocOrientationClassify": False,
        "useDocUnwarping": False,
        "useLayoutDetection": True,
        "useChartRecognition": False,
        "useSealRecognition": True,
        "useOcrForImageBlock": False,
        "layoutNms": True,
        "layoutShapeMode": "auto",
        "mergeLayoutBlocks": True,
        "promptLabel": "ocr",
        "repetitionPenalty": 1,
        "temperature": 0,
        "topP": 1,
        "minPixels": 147384,
        "maxPixels": 2822400,
        "maxNewTokens": None,
        "layoutThreshold": None,
        "layoutUnclipRatio": None,
        "markdownIgnoreLabels": [
            "header",
            "header_image",
            "footer",
            "footer_image",
            "number",
            "footnote",
            "aside_text",
        ],
        "formatBlockContent": False,
        "prettifyMarkdown": True,
        "visualize": False,
        "restructurePages": True,
        "mergeTables": True,
        "relevelTitles": True,
    }
    response = service.client.post("/layout-parsing", json=body)
    assert response.status_code == 200, response.text
    assert "block of" in response.json()["result"]["layoutParsingResults"][0]["markdown"]["text"]
    (note,) = response.json()["result"]["docparser"]["notes"]
    assert note.startswith("useSealRecognition: true has no effect, such blocks stay pictures: seal is no task of Pad")
    assert vlm.requests[0]["mm_processor_kwargs"] == {"min_pixels": 147384, "max_pixels": 2822400}
    assert vlm.requests[0]["repetition_penalty"] == 1
    assert vlm.requests[0]["top_p"] == 1


def test_open_webui(service):
    body = {
        "file": samples.image("JPEG"),
        "fileType": 1,
        "useDocOrientationClassify": False,
        "useDocUnwarping": False,
        "useChartRecognition": False,
    }
    response = service.client.post("/layout-parsing", json=body, headers={"Authorization": "token abc"})
    assert response.json()["result"]["layoutParsingResults"][0]["markdown"]["text"].startswith("# OCR:")


def test_every_null_is_the_default(service):
    names = set(ParseRequest.model_fields) - {"file"}
    nulls = service.parse(samples.image(), **dict.fromkeys(names)).json()["result"]["layoutParsingResults"]
    assert nulls == service.parse(samples.image()).json()["result"]["layoutParsingResults"]


def test_layout_options_reach_the_pipeline(service):
    def labels(**options):
        return [b["block_label"] for b in service.page(samples.image(), **options)["prunedResult"]["parsing_res_list"]]

    assert "table" not in labels(layoutThreshold={"table": 0.95})
    assert "table" not in labels(layoutThreshold={"21": 0.95})
    assert labels(layoutThreshold=1) == []
    wide = service.page(samples.image(), layoutUnclipRatio={"doc_title": [1.1, 1]})["prunedResult"]["parsing_res_list"]
    assert wide[1]["block_bbox"][2] - wide[1]["block_bbox"][0] > 1000


def test_markdown_options(service):
    def text(**options):
        return service.page(samples.image(), **options)["markdown"]["text"]

    assert "block of 992 x 53" in text(markdownIgnoreLabels=[])  # the header
    assert '<div style="text-align: center;"><img' in text()
    assert "![](imgs/" in text(prettifyMarkdown=False)


def test_a_page_without_layout_detection_is_one_block(service, vlm):
    entry = service.page(samples.image(size=(400, 60)), useLayoutDetection=False, promptLabel="formula")
    assert [b["block_label"] for b in entry["prunedResult"]["parsing_res_list"]] == ["formula"]
    assert prompt_of(vlm.requests[0]) == "Formula Recognition:"


def test_pictures_are_drawn(service):
    (entry,) = service.parse(samples.image(size=(3000, 2000)), visualize=True).json()["result"]["layoutParsingResults"]
    assert Image.open(io.BytesIO(base64.b64decode(entry["inputImage"]))).size == (2000, 1333), "scaled down"
    drawn = Image.open(io.BytesIO(base64.b64decode(entry["outputImages"]["layout_det_res"])))
    assert min(drawn.convert("L").tobytes()) < 200, "boxes on a white page"


def test_docx(service):
    export = service.page(samples.image(), outputFormats=["docx"])["exports"]["docx"]
    assert export["fileName"] == "page_1.docx"
    assert base64.b64decode(export["content"])[:2] == b"PK"


def test_results_name_the_weights(service):
    assert service.parse(samples.image(), visualize=False).json()["result"]["docparser"] == {
        "models": {
            "layout": {"model": "PP-DocLayoutV2", "demo": False},
            "vlm": {"model": "PaddleOCR-VL-0.9B", "demo": False},
        },
        "partial": False,
        "pages": [],
    }


def test_the_description_is_written_once():
    """Anybody may ask for it, and writing it takes as long as ten refusals."""

    class Described:
        times = 0

        def openapi(self) -> dict:
            self.times += 1
            return {"openapi": "3.1.0"}

    app = Described()
    assert web_pages._description(app) == web_pages._description(app) == b'{"openapi":"3.1.0"}'
    assert app.times == 1


def test_the_api_is_described(service):
    """The page itself is opened in a browser in tests/web; here: it loads its own files only, and they are there."""
    answer = service.client.get("/docs")
    page, policy = answer.text, answer.headers["Content-Security-Policy"]
    loaded = re.findall(r"""(?:src|href)\s*=\s*["']?\s*([^"'> ]+)""", page)
    assert len(loaded) == 3 and all(re.fullmatch(r"docs/[a-z0-9.-]+", address) for address in loaded), loaded
    for address in loaded:
        file = service.client.get(f"/{address}")
        assert file.status_code == 200 and file.headers["Content-Type"] != "text/plain" and len(file.content) > 500
    assert "url: 'openapi.json'" in page and "http" not in policy and "'unsafe-" not in policy
    assert service.client.get("/docs/main.py").status_code == 404
    api = service.client.get("/openapi.json").json()
    assert {"/layout-parsing", "/restructure-pages", "/health", "/health/ready"} <= set(api["paths"])
    body = api["components"]["schemas"]["ParseRequest"]
    assert body["required"] == ["file"] and set(body["properties"]) == set(ParseRequest.model_fields)
    assert {"file", "fileType", "logId", "layoutThreshold", "visualize"} <= set(body["properties"])
