# SPDX-License-Identifier: Apache-2.0
"""Answers of the VLM that take the square of their length to read: the page ends at a bound, its worker does not."""

from __future__ import annotations

import threading

import pytest

from tests.support import samples
from tests.support.parser_process import running_service
from tests.support.processes import children
from tests.support.simulated_vlm import prompt_of

# A row of 3,000 cells and as many rows: PaddleX makes a grid of 9 million objects of it, many gigabytes. The texts
# differ, for the VLM's client cuts what repeats itself.
GRID = "".join(f"<fcel>{i}" for i in range(3000)) + "<nl>" + "".join(f"<fcel>{i}<nl>" for i in range(3000))
TABLE = "Table Recognition:"
WIDE = "<table>" + "<tr><td rowspan='99999' colspan='99999'>a</td></tr>" * 3 + "</table>"


def saying(table: str):
    return lambda request, number: table if prompt_of(request) == TABLE else f"word {number}"


@pytest.fixture(scope="module")
def bounded(tmp_path_factory, layout_model, _vlm):
    settings = {"LAYOUT_MODEL_DIR": str(layout_model), "PARSER_CHILD_MEMORY_MIB": "256", "PARSER_CHILD_CPU_S": "4"}
    with running_service(tmp_path_factory.mktemp("bounded"), VLM_URL=_vlm.url, **settings) as running:
        yield running


def test_a_table_that_would_need_gigabytes(bounded, vlm):
    workers = children(bounded.process.pid)
    vlm.answer = saying(GRID)
    answer = bounded.parse(samples.image(), visualize=False)
    assert answer.status_code == 413, answer.text[:500]
    assert "PARSER_CHILD_" in answer.json()["errorMsg"] and "page 1" in answer.json()["errorMsg"]
    assert children(bounded.process.pid) == workers, "no worker ended"
    vlm.reset()
    assert "imgs/" in bounded.page(samples.image())["markdown"]["text"]


def test_marks_that_make_no_table_stay_as_they_are(bounded, vlm):
    """PaddleX ends with an IndexError on them; found by fuzzing."""
    vlm.answer = saying("<fcel><xcel><nl><xcel>")
    blocks = bounded.page(samples.image())["prunedResult"]["parsing_res_list"]
    assert [block["block_content"] for block in blocks if block["block_label"] == "table"] == ["<fcel><xcel><nl><xcel>"]


def test_other_pages_keep_theirs(bounded, vlm):
    """Only the first table that is asked for is hostile."""
    first = threading.Lock()
    vlm.answer = lambda request, number: (
        GRID if prompt_of(request) == TABLE and first.acquire(blocking=False) else "<fcel>a<nl>"
    )
    body = bounded.parse(samples.pdf((595, 842), (595, 842)), visualize=False).json()
    report = body["result"]["docparser"]
    assert report["partial"] and [page["error"]["kind"] for page in report["pages"]] == ["too_large"]
    texts = [entry["markdown"]["text"] for entry in body["result"]["layoutParsingResults"]]
    assert [bool(text) for text in texts].count(True) == 1


def test_pages_that_cannot_be_joined_are_given_as_they_are(bounded, vlm):
    """Merging the tables would count the places of each cell."""
    vlm.answer = saying(WIDE)
    whole_page = {"useLayoutDetection": False, "promptLabel": "table"}
    document = samples.pdf((595, 842), (595, 842))
    body = bounded.parse(document, visualize=False, restructurePages=True, **whole_page).json()
    pages = body["result"]["docparser"]["pages"]
    assert [note["kind"] for page in pages for note in page["blocks"]] == ["too_large"]
    assert "not joined" in pages[0]["blocks"][0]["message"]
    assert all("99999" in entry["markdown"]["text"] for entry in body["result"]["layoutParsingResults"])


def test_pages_of_a_client_that_cannot_be_joined(bounded, vlm):
    parsed = bounded.parse(samples.pdf((595, 842), (595, 842)), visualize=False).json()["result"]
    pages = [{"prunedResult": entry["prunedResult"]} for entry in parsed["layoutParsingResults"]]
    for page in pages:
        page["prunedResult"]["parsing_res_list"] = [
            {**block, "block_label": "table", "block_content": WIDE}
            for block in page["prunedResult"]["parsing_res_list"]
            if block["block_label"] == "table"
        ]
    refused = bounded.client.post("/restructure-pages", json={"pages": pages})
    assert refused.status_code == 413 and "PARSER_CHILD_" in refused.json()["errorMsg"]
    assert bounded.client.get("/health").status_code == 200


def test_a_word_file_beyond_its_bound_leaves_the_page(bounded, vlm):
    wide, high = ("".join(f"{mark}<td>{i}</td>" for i in range(count)) for mark, count in (("", 300), ("<tr>", 3000)))
    vlm.answer = saying(f"<table><tr>{wide}</tr>{high}</table>")
    body = bounded.parse(samples.image(), visualize=False, outputFormats=["docx"]).json()
    (entry,) = body["result"]["layoutParsingResults"]
    assert "exports" not in entry and entry["markdown"]["text"]
    assert [note["kind"] for note in body["result"]["docparser"]["pages"][0]["blocks"]] == ["too_large"]
