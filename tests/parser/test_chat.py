# SPDX-License-Identifier: Apache-2.0
"""A document by the OpenAI API, asked for with the real `openai` package."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest

from tests.parser.chat import CHAT, MODEL, file, image, openai_client, turn
from tests.support import samples
from tests.support.parser_process import ParserProcess
from tests.support.simulated_vlm import prompt_of
from tests.support.wait import wait_for


@pytest.fixture
def client(service: ParserProcess) -> Iterator[openai.OpenAI]:
    with openai_client(service, "any") as client:
        yield client


def markdown(service: ParserProcess, data: str) -> str:
    """What /parse gives."""
    pages = service.parse(data, visualize=False).json()["result"]["layoutParsingResults"]
    return "\n\n".join(page["markdown"]["text"].strip() for page in pages)


def test_models(client):
    assert [model.id for model in client.models.list()] == [MODEL, "PaddleOCR-VL"]
    assert client.models.retrieve(MODEL).id == MODEL
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve("gpt-4o")
    assert caught.value.code == "model_not_found"
    assert caught.value.message.endswith(f"there is {MODEL} or PaddleOCR-VL")


def test_an_image_becomes_its_markdown(client, service, vlm):
    answer = client.chat.completions.create(model=MODEL, messages=turn("Read this.", image()), temperature=0.7)
    (choice,) = answer.choices
    assert choice.message.content == markdown(service, samples.image()) and choice.finish_reason == "stop"
    assert choice.message.content.startswith("# OCR: block of")
    assert answer.model == MODEL and answer.object == "chat.completion"
    # The simulated VLM counts a token for each prompt and each text, and the page has seven blocks with text.
    assert answer.usage.model_dump(exclude_none=True) == {
        "prompt_tokens": 7,
        "completion_tokens": 7,
        "total_tokens": 14,
    }
    said = answer.model_extra["docparser"]
    assert said["models"]["vlm"] == {"model": MODEL, "demo": False} and not said["partial"]
    assert said["notes"] == ["temperature: no effect; the answer is the document's text."]


def test_a_page_is_streamed_block_by_block(client, service):
    stream = client.chat.completions.create(
        model="PaddleOCR-VL", messages=turn(image()), stream=True, stream_options={"include_usage": True}
    )
    *chunks, last = list(stream)
    assert {chunk.id for chunk in chunks} == {last.id} and {chunk.object for chunk in chunks} == {
        "chat.completion.chunk"
    }
    assert chunks[0].choices[0].delta.role == "assistant"
    pieces = [chunk.choices[0].delta.content or "" for chunk in chunks]
    text = markdown(service, samples.image())
    assert "".join(pieces) == text
    assert [piece.strip() for piece in pieces[1:-1]] == re.split(r"\n{2,}", text), "a chunk for each block"
    assert chunks[-1].choices[0].finish_reason == "stop" and chunks[-1].model_extra["docparser"]["pages"] == []
    assert last.choices == [] and last.usage.total_tokens == 14
    assert not any(chunk.usage for chunk in chunks)


def test_a_block_is_sent_while_the_vlm_reads_the_next(client, service, vlm):
    """The VLM answers for the table once the text before it is here."""
    whole, answer = markdown(service, samples.image()), vlm.answer
    first_is_here = threading.Event()

    def hold_tables(request: dict, number: int) -> Any:
        if prompt_of(request) == "Table Recognition:":
            first_is_here.wait(60)
        return answer(request, number)

    vlm.answer = hold_tables
    pieces = []
    for chunk in client.chat.completions.create(model=MODEL, messages=turn(image()), stream=True):
        if content := chunk.choices[0].delta.content:
            assert first_is_here.is_set() or "Table" not in content
            first_is_here.set()
            pieces.append(content)
            assert len(pieces) > 1 or whole.startswith(content)
    assert "".join(pieces) == whole


def test_a_page_of_a_pdf_is_sent_while_the_next_is_read(client, vlm):
    """The VLM answers for the second page, which is as wide as none other, once the first is here."""
    first_is_here, answer = threading.Event(), vlm.answer

    def one_after_the_other(request: dict, number: int) -> Any:
        text = answer(request, number)
        if "672 x" in text:
            first_is_here.wait(60)
        return text

    vlm.answer = one_after_the_other
    data = samples.pdf((595, 842), (420, 842))
    stream = client.chat.completions.create(model=MODEL, messages=turn(file(data)), stream=True)
    pieces = []
    for chunk in stream:
        if content := chunk.choices[0].delta.content:
            assert first_is_here.is_set() or "672 x" not in content
            first_is_here.set()
            pieces.append(content)
    assert "672 x" in "".join(pieces)


def test_pages_that_are_joined_come_at_the_end(client, service):
    data = samples.pdf((595, 842), (595, 842))
    whole = client.chat.completions.create(
        model=MODEL, messages=turn(file(data)), extra_body={"options": {"restructurePages": True}}
    )
    parts = client.chat.completions.create(
        model=MODEL, messages=turn(file(data)), stream=True, extra_body={"options": {"restructurePages": True}}
    )
    text = "".join(chunk.choices[0].delta.content or "" for chunk in parts)
    pages = service.parse(data, visualize=False, restructurePages=True).json()["result"]["layoutParsingResults"]
    assert whole.choices[0].message.content == text == "\n\n".join(page["markdown"]["text"] for page in pages)


def test_the_last_turn_is_read(client, service, vlm):
    past = [*turn("And this?", image()), {"role": "assistant", "content": "# Text"}]
    system = {"role": "system", "content": "You are helpful."}
    answer = client.chat.completions.create(
        model=MODEL, messages=[system, *past, *turn("That one.", image(samples.image(size=(620, 877))))]
    )
    assert answer.choices[0].message.content == markdown(service, samples.image(size=(620, 877)))


def test_a_long_document_behind_others(client, service):
    """It is taken from the spool; the past is JSON."""
    long, longer = samples.image("BMP", (700, 600)), samples.image("BMP", (800, 600))
    assert len(long) > 1 << 20
    past = [*turn(image(longer)), {"role": "assistant", "content": None}]
    answer = client.chat.completions.create(model=MODEL, messages=[*past, *turn(file(long, "image/bmp"))])
    assert answer.choices[0].message.content == markdown(service, long)


def test_a_page_that_failed_is_named(client, vlm):
    answer = vlm.answer

    def refuses_narrow_pages(request: dict, number: int) -> Any:
        return (400, "too narrow") if "672 x" in answer(request, number) else answer(request, number)

    vlm.answer = refuses_narrow_pages
    vlm.finish_reason = "length"
    parts = turn(file(samples.pdf((420, 842), (595, 842))))
    *_, last = client.chat.completions.create(model=MODEL, messages=parts, stream=True)
    report = last.model_extra["docparser"]
    assert last.choices[0].finish_reason == "length" and report["partial"]
    assert {note["kind"] for note in report["pages"][0]["blocks"]} >= {"refused"}


def test_what_fails_amid_a_stream_is_said_in_it(client, service, vlm, own_vlm):
    """The first page is out when the VLM goes away for good."""
    holding, answer = threading.Event(), vlm.answer

    def hold_narrow_pages(request: dict, number: int) -> Any:
        text = answer(request, number)
        if "672 x" in text:
            holding.wait(60)
        return text

    vlm.answer = hold_narrow_pages
    parts = turn(file(samples.pdf((595, 842), (420, 842))))
    stream = client.chat.completions.create(model=MODEL, messages=parts, stream=True)
    with pytest.raises(openai.APIError, match="cannot be reached") as caught:
        for chunk in stream:
            if chunk.choices[0].delta.content:
                own_vlm.down()
                holding.set()
    assert isinstance(caught.value.body, dict) and caught.value.body["type"] == "server_error"


def spooled(service: ParserProcess) -> list[str]:
    return sorted(path.name for path in (service.log.parent / "spool").iterdir())


@pytest.mark.parametrize("streams", [False, True])
def test_a_client_that_leaves(service, vlm, streams: bool):
    """Before the first text, or amid the stream: the pages are given up, and nothing of the document stays."""
    wait_for(lambda: not spooled(service))
    release, answer = threading.Event(), vlm.answer

    def hold(request: dict, number: int) -> Any:
        text = answer(request, number)
        if not streams or "672 x" in text:
            release.wait(60)
        return text

    vlm.answer = hold
    before = service.metrics().get('docparser_pages_total{outcome="abandoned"}', 0)
    body = {"model": MODEL, "messages": turn(file(samples.pdf((595, 842), (420, 842)))), "stream": True}
    try:
        leaving = httpx.Client(base_url=service.url, trust_env=False, timeout=60 if streams else 1)
        with leaving, contextlib.suppress(httpx.ReadTimeout), leaving.stream("POST", CHAT, json=body) as response:
            assert next(response.iter_lines()).startswith("data: ")
        wait_for(lambda: service.metrics()['docparser_pages_total{outcome="abandoned"}'] >= before + 1)
    finally:
        release.set()
    wait_for(lambda: not spooled(service))
    wait_for(lambda: service.metrics()["docparser_running_tasks"] == 0)
