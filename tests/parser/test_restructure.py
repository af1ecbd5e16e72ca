# SPDX-License-Identifier: Apache-2.0
"""Pages are joined in the parsing request, or later in a request that sends the parsed pages back."""

from __future__ import annotations

import base64
import io
import json
import pickle

import pytest

from docparser.contract.schemas import ParseOptions
from docparser.page.frozen import Known, freeze, frozen_block, stored
from docparser.worker.text_jobs import JoinFrozen, join_frozen
from tests.support import samples
from tests.support.simulated_vlm import prompt_of

PAGES = ((595, 842), (595, 842))


def answer(request: dict, number: int) -> str:
    if prompt_of(request) == "Table Recognition:":
        return "<fcel>Item<fcel>Price<nl><fcel>Pen<fcel>3<nl>"
    return "1 Introduction"


def test_titles_get_levels_when_pages_are_restructured(service, vlm):
    vlm.answer = answer
    body = service.parse(samples.pdf(*PAGES), restructurePages=True, visualize=False).json()
    pages = body["result"]["layoutParsingResults"]
    assert [len(pages), body["result"]["dataInfo"]["numPages"]] == [2, 2]
    blocks = [block for page in pages for block in page["prunedResult"]["parsing_res_list"]]
    assert [block["global_block_id"] for block in blocks] == list(range(16)), "numbered through the document"
    assert all("imgs/img_in_image" in page["markdown"]["text"] and page["markdown"]["images"] for page in pages)


def test_joined_pages_have_an_outline_beside_what_paddlex_says(service, vlm):
    """What the layout model takes for the document's title has a section's number. PaddleX's members stay."""
    vlm.answer = answer
    joined, plain = (
        service.parse(samples.pdf(*PAGES), restructurePages=True, visualize=False, relevelTitles=levels).json()
        for levels in (True, False)
    )
    ours = [page.pop("outline") for page in joined["result"]["layoutParsingResults"]]
    assert all("outline" not in page for page in plain["result"]["layoutParsingResults"])
    for page, outline in zip(joined["result"]["layoutParsingResults"], ours, strict=True):
        blocks = page["prunedResult"]["parsing_res_list"]
        headings = [block for block in blocks if block["block_label"] in ("doc_title", "paragraph_title")]
        assert outline == [{"block_id": block["block_id"], "level": 2, "text": "1 Introduction"} for block in headings]
        assert set(page) == {"prunedResult", "markdown"}


def test_restructured_pages_can_have_pictures_and_docx(service):
    body = service.parse(samples.image(), restructurePages=True, visualize=True, outputFormats=["docx"]).json()
    (entry,) = body["result"]["layoutParsingResults"]
    assert set(entry) == {"prunedResult", "markdown", "outputImages", "inputImage", "exports", "outline"}


@pytest.mark.parametrize(("second", "tables"), [(1, 1), (2, 2)])
def test_a_table_goes_on_only_on_the_page_of_the_next_number(second: int, tables: int):
    """The page between them has failed, or nobody asked for it."""
    block = frozen_block("table", (0, 0, 90, 90), Known(), content="<table><tr><td>Pen</td><td>3</td></tr></table>")
    settings = {"use_doc_preprocessor": False, "use_layout_detection": False}
    found = {"page_count": None, "width": 100, "height": 100, "model_settings": settings, "spotting_res": {}}
    files = stored(freeze(found, [], [block]))
    options = ParseOptions(outputFormats=["docx"])
    sink = io.BytesIO()
    join_frozen({}, io.BytesIO(pickle.dumps(JoinFrozen({0: files, second: files}, options, 100))), sink)
    entries = [json.loads(line) for line in sink.getvalue().splitlines()]
    assert [bool(entry["markdown"]["text"].strip()) for entry in entries] == [True, tables == 2]
    assert [entry["exports"]["docx"]["fileName"] for entry in entries] == ["page_1.docx", f"page_{second + 1}.docx"]


@pytest.fixture
def parsed(service):
    pages = service.parse(samples.pdf(*PAGES), visualize=False).json()["result"]["layoutParsingResults"]
    return [{"prunedResult": page["prunedResult"], "markdownImages": page["markdown"]["images"]} for page in pages]


def test_pages_can_be_joined_later(service, parsed):
    response = service.client.post("/restructure-pages", json={"pages": parsed, "logId": "later"})
    body = response.json()
    assert (response.status_code, body["logId"], body["errorCode"]) == (200, "later", 0)
    pages = body["result"]["layoutParsingResults"]
    assert len(pages) == 2
    assert pages[0]["markdown"]["images"] == parsed[0]["markdownImages"]


def test_pages_can_be_made_one(service, parsed):
    request = {"pages": parsed, "concatenatePages": True, "outputFormats": ["docx"]}
    (page,) = service.client.post("/restructure-pages", json=request).json()["result"]["layoutParsingResults"]
    assert page["prunedResult"]["page_count"] == 2
    pictures = page["markdown"]["images"]
    assert len(pictures) == 2 and all(page["markdown"]["text"].count(path) == 1 for path in pictures)
    assert base64.b64decode(page["exports"]["docx"]["content"])[:2] == b"PK"


def test_pictures_in_tables_are_there_when_pages_become_one(service, parsed):
    """PaddleOCR#17767: those of later pages were lost. Here both pages have one in the same place."""
    name = "imgs/img_in_image_box_1_2_3_4.jpg"
    for number, page in enumerate(parsed):
        table = next(b for b in page["prunedResult"]["parsing_res_list"] if b["block_label"] == "table")
        table["block_content"] = f'<table><tr><td>page {number}</td><td><img src="{name}" ></td></tr></table>'
        page["markdownImages"] = {name: base64.b64encode(b"picture %d" % number).decode()}
    request = {"pages": parsed, "concatenatePages": True, "mergeTables": False}
    (page,) = service.client.post("/restructure-pages", json=request).json()["result"]["layoutParsingResults"]
    pictures, text = page["markdown"]["images"], page["markdown"]["text"]
    for number in (0, 1):
        (path,) = (path for path, data in pictures.items() if base64.b64decode(data) == b"picture %d" % number)
        assert path in text.partition(f"page {number}")[2].partition("</table>")[0]


NO_PAGES: tuple[object, ...] = ([], [{"prunedResult": {}}], [{"prunedResult": {"parsing_res_list": [{}]}}], [{}], "x")


@pytest.mark.parametrize("pages", NO_PAGES)
def test_what_is_no_page_is_refused(service, pages):
    response = service.client.post("/restructure-pages", json={"pages": pages})
    assert response.status_code == 422
    assert response.json()["errorMsg"].startswith("pages")


def test_markdown_image_urls_are_not_fetched(service, parsed):
    parsed[0]["markdownImages"] = {path: "http://127.0.0.1:9/x.jpg" for path in parsed[0]["markdownImages"]}
    request = {"pages": parsed[:1], "outputFormats": ["docx"]}
    (page,) = service.client.post("/restructure-pages", json=request).json()["result"]["layoutParsingResults"]
    assert page["markdown"]["images"] == parsed[0]["markdownImages"]
