# SPDX-License-Identifier: Apache-2.0
"""Documents that a decoder would be busy with for hours: what their sender is told, and what others notice."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from docparser.documents.spool import Document
from docparser.errors import DocumentTooSlow
from docparser.parsing.document_pages import GIVE_UP_AFTER, OPENING, SlowDocuments
from tests.support import bombs, samples
from tests.support.parser_process import JOBS, ParserProcess, running_service
from tests.support.processes import children
from tests.support.wait import wait_for

GIVEN_UP = "was given up after"


@pytest.fixture(scope="module")
def impatient(tmp_path_factory, layout_model, _vlm):
    settings = {"PARSER_RENDER_TIMEOUT_S": "3", "PARSER_PAGES_IN_FLIGHT": "4"}
    folder = tmp_path_factory.mktemp("impatient")
    with running_service(folder, VLM_URL=_vlm.url, LAYOUT_MODEL_DIR=str(layout_model), **settings) as service:
        yield service


def submit(service: ParserProcess, document: bytes, token: str) -> str:
    """The id of a new job of this client's."""
    answer = service.submit(document, headers={"Authorization": token})
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]["jobId"]


def times_given_up(service: ParserProcess) -> int:
    """How often a page was rendered up to the limit."""
    return service.log.read_text().count(GIVEN_UP)


def test_a_slow_page_is_refused_with_the_limits_name_and_not_rendered_again(impatient, vlm):
    before, workers = times_given_up(impatient), children(impatient.process.pid)
    bomb = samples.encode(bombs.function_shading())
    first, second = impatient.parse(bomb), impatient.parse(bomb)
    for answer in (first, second):
        assert answer.status_code == 413, answer.text
        assert "page 1" in answer.json()["errorMsg"] and "PARSER_RENDER_TIMEOUT_S" in answer.json()["errorMsg"]
    assert times_given_up(impatient) == before + 1
    assert children(impatient.process.pid) == workers, "the worker goes on"


def test_other_pages_of_the_document_and_of_the_worker_are_parsed(impatient, vlm):
    with ThreadPoolExecutor() as threads, vlm.holding() as release:
        page = threads.submit(impatient.page, samples.image(size=(600, 800)))
        wait_for(lambda: vlm.in_flight)
        mixed = threads.submit(impatient.parse, samples.encode(bombs.beside_good_pages(bombs.form_of_itself())))
        wait_for(lambda: impatient.metrics()["docparser_slow_documents"] == 1)
        release()
        assert "block of" in page.result()["markdown"]["text"], "it was in the same worker"
        result = mixed.result().json()["result"]
    (bad,) = result["docparser"]["pages"]
    assert bad["page"] == 2 and bad["error"]["kind"] == "too_slow" and GIVEN_UP in bad["error"]["message"]
    assert result["docparser"]["partial"] and len(result["layoutParsingResults"]) == 3


def test_a_jobs_slow_page_fails_with_the_reason_and_is_not_tried_again(impatient, vlm):
    before = times_given_up(impatient)
    document = bombs.beside_good_pages(bombs.function_shading(steps=19_000))
    job = submit(impatient, document, "Bearer third")
    state = impatient.ended(job)
    assert state["extractProgress"]["extractedPages"] == 2, state
    assert GIVEN_UP in str(state) and "page 2" in str(state), state
    assert times_given_up(impatient) == before + 1
    assert impatient.client.post(f"{JOBS}/{job}/retry").json()["data"]["pages"] == 0
    assert impatient.state(job)["state"] in ("done", "failed") and times_given_up(impatient) == before + 1


@pytest.mark.parametrize("how", ["requests", pytest.param("jobs", marks=pytest.mark.long)])
def test_twenty_slow_documents_of_one_client_do_not_keep_another_waiting(impatient, vlm, how):
    """The other client's five pages are answered while nearly all of them still wait."""
    answered: list[int] = []

    def send(number: int) -> None:
        bomb = bombs.function_shading() + b"%% %s %d\n" % (how.encode(), number)
        with contextlib.suppress(httpx.TransportError):
            if how == "jobs":
                submit(impatient, bomb, "Bearer first")
            else:
                headers = {"Authorization": "Bearer first"}
                answer = impatient.client.post("/parse", files={"file": bomb}, headers=headers, timeout=600)
                answered.append(answer.status_code)

    before = times_given_up(impatient)
    threads = [threading.Thread(target=send, args=(number,), daemon=True) for number in range(20)]
    for thread in threads:
        thread.start()
    wait_for(lambda: impatient.metrics()["docparser_slow_documents"] == 1)
    for _ in range(5):
        assert impatient.page(samples.image(size=(600, 800)))["markdown"]["text"]
    if how == "jobs":
        impatient.ended(submit(impatient, samples.blank_pages(2), "Bearer second"))
    assert times_given_up(impatient) - before <= 8 and len(answered) <= 8
    assert impatient.metrics()["docparser_slow_documents"] <= 1, "half of the workers, but one at least"


# What is remembered.


@pytest.fixture
def slow(tmp_path: Path):
    def make(name: str, content: bytes) -> Document:
        (tmp_path / name).write_bytes(content)
        return Document(str(tmp_path / name), "PDF")

    return make


async def refused(known: SlowDocuments, document: Document, *parts: int | str) -> str:
    try:
        await known.check(document, *parts)
    except DocumentTooSlow as exc:
        return str(exc)
    return ""


async def _remember(slow) -> None:
    known, error = SlowDocuments(), DocumentTooSlow("page 5 is slow")
    first, same, other = slow("a", b"bomb"), slow("b", b"bomb"), slow("c", b"good")
    assert await known.note(first, 4, error) is None
    assert await refused(known, same, 4) == "page 5 is slow", "by its content, whatever its name"
    assert await refused(known, same, 3) == "" and await refused(known, other, 4) == ""
    Path(same.path).write_bytes(b"changed")
    assert await refused(known, same, 4) == ""
    said = [await known.note(first, index, error) for index in range(5, 4 + GIVE_UP_AFTER)]
    assert said[-1] is not None and said[-1] == await refused(known, first, 0), "all of its pages"
    await known.note(other, OPENING, DocumentTooSlow("opening is slow"))
    assert await refused(known, other, 0) == "opening is slow"


def test_documents_are_remembered_by_their_content(slow):
    asyncio.run(_remember(slow))
