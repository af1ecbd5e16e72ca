# SPDX-License-Identifier: Apache-2.0
"""Documents that a decoder would be busy with for hours, and answers of the VLM that take the square of their length to
read: the page ends at a bound, its worker does not, and others notice nothing."""

from __future__ import annotations

import contextlib
import http.client
import json
import select
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support import bombs, samples
from tests.support.parser_process import JOBS, ParserProcess, running_service
from tests.support.processes import children
from tests.support.simulated_vlm import prompt_of
from tests.support.wait import wait_for

# A row of 3,000 cells and as many rows: PaddleX makes a grid of 9 million objects of it, many gigabytes. The texts
# differ, for the VLM's client cuts what repeats itself.
GRID = "".join(f"<fcel>{i}" for i in range(3000)) + "<nl>" + "".join(f"<fcel>{i}<nl>" for i in range(3000))
TABLE = "Table Recognition:"
WIDE = "<table>" + "<tr><td rowspan='99999' colspan='99999'>a</td></tr>" * 3 + "</table>"
GIVEN_UP = "was given up after"


def saying(table: str):
    return lambda request, number: table if prompt_of(request) == TABLE else f"word {number}"


@pytest.fixture(scope="module")
def bounded(tmp_path_factory, layout_model, _vlm):
    settings = {
        "PARSER_CHILD_MEMORY_MIB": "256",
        "PARSER_CHILD_CPU_S": "4",
        "PARSER_RENDER_TIMEOUT_S": "3",
        "PARSER_PAGES_IN_FLIGHT": "4",
    }
    folder = tmp_path_factory.mktemp("bounded")
    with running_service(folder, VLM_URL=_vlm.url, LAYOUT_MODEL_DIR=str(layout_model), **settings) as service:
        yield service


# Answers.


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


# Documents.


def submit(service: ParserProcess, document: bytes, token: str) -> str:
    """The id of a new job of this client's."""
    answer = service.submit(document, headers={"Authorization": token})
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]["jobId"]


def times_given_up(service: ParserProcess) -> int:
    """How often a page was rendered up to the limit."""
    return service.log.read_text().count(GIVEN_UP)


def test_a_slow_page_is_refused_with_the_limits_name_and_not_rendered_again(bounded, vlm):
    before, workers = times_given_up(bounded), children(bounded.process.pid)
    bomb = samples.encode(bombs.function_shading())
    first, second = bounded.parse(bomb), bounded.parse(bomb)
    for answer in (first, second):
        assert answer.status_code == 413, answer.text
        assert "page 1" in answer.json()["errorMsg"] and "PARSER_RENDER_TIMEOUT_S" in answer.json()["errorMsg"]
    assert times_given_up(bounded) == before + 1
    assert children(bounded.process.pid) == workers, "the worker goes on"


def test_other_pages_of_the_document_and_of_the_worker_are_parsed(bounded, vlm):
    with ThreadPoolExecutor() as threads, vlm.holding() as release:
        page = threads.submit(bounded.page, samples.image(size=(600, 800)))
        wait_for(lambda: vlm.in_flight)
        mixed = threads.submit(bounded.parse, samples.encode(bombs.beside_good_pages(bombs.form_of_itself())))
        wait_for(lambda: bounded.metrics()["docparser_slow_documents"] == 1)
        release()
        assert "block of" in page.result()["markdown"]["text"], "it was in the same worker"
        result = mixed.result().json()["result"]
    (bad,) = result["docparser"]["pages"]
    assert bad["page"] == 2 and bad["error"]["kind"] == "too_slow" and GIVEN_UP in bad["error"]["message"]
    assert result["docparser"]["partial"] and len(result["layoutParsingResults"]) == 3


def test_a_jobs_slow_page_fails_with_the_reason_and_is_not_tried_again(bounded, vlm):
    before = times_given_up(bounded)
    document = bombs.beside_good_pages(bombs.function_shading(steps=19_000))
    job = submit(bounded, document, "Bearer third")
    state = bounded.ended(job)
    assert state["extractProgress"]["extractedPages"] == 2, state
    assert GIVEN_UP in str(state) and "page 2" in str(state), state
    assert times_given_up(bounded) == before + 1
    assert bounded.client.post(f"{JOBS}/{job}/retry").json()["data"]["pages"] == 0
    assert bounded.state(job)["state"] in ("done", "failed") and times_given_up(bounded) == before + 1


def unanswered(service: ParserProcess, document: bytes, token: str) -> http.client.HTTPConnection:
    """A connection on which a document was sent to be parsed at once."""
    connection = http.client.HTTPConnection("127.0.0.1", service.port)
    words = {"Content-Type": "application/json", "Authorization": token}
    connection.request("POST", "/layout-parsing", json.dumps({"file": samples.encode(document)}), words)
    return connection


@pytest.mark.parametrize("how", ["requests", pytest.param("jobs", marks=pytest.mark.long)])
def test_twenty_slow_documents_of_one_client_do_not_keep_another_waiting(bounded, vlm, how):
    """The other client's five pages are answered while nearly all of them still wait."""
    before, sent = times_given_up(bounded), []
    with contextlib.ExitStack() as nobody_waits:
        for number in range(20):
            bomb = bombs.function_shading() + b"%% %s %d\n" % (how.encode(), number)
            if how == "jobs":
                nobody_waits.callback(bounded.client.delete, f"{JOBS}/{submit(bounded, bomb, 'Bearer first')}")
            else:
                sent.append(nobody_waits.enter_context(contextlib.closing(unanswered(bounded, bomb, "Bearer first"))))
        wait_for(lambda: bounded.metrics()["docparser_slow_documents"] == 1)
        for _ in range(5):
            assert bounded.page(samples.image(size=(600, 800)))["markdown"]["text"]
        if how == "jobs":
            bounded.ended(submit(bounded, samples.blank_pages(2), "Bearer second"))
        answered, _, _ = select.select([one.sock for one in sent], [], [], 0)
        assert times_given_up(bounded) - before <= 8 and len(answered) <= 8
        assert bounded.metrics()["docparser_slow_documents"] <= 1, "half of the workers, but one at least"
