# SPDX-License-Identifier: Apache-2.0
"""A document by the OpenAI API, asked for with the real `openai` package."""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from docparser.clients.keys import digest
from tests.support import samples
from tests.support.parser_process import LIMITS, ParserProcess
from tests.support.simulated_vlm import SimulatedVlm
from tests.support.wait import wait_for

MODEL = "PaddleOCR-VL-0.9B"
CHAT = "/v1/chat/completions"


@pytest.fixture
def client(service: ParserProcess) -> Iterator[openai.OpenAI]:
    with openai_client(service, "any") as client:
        yield client


def openai_client(service: ParserProcess, key: str) -> openai.OpenAI:
    """Without its retries, and without the proxies that the environment may name."""
    http = openai.DefaultHttpxClient(trust_env=False)
    return openai.OpenAI(base_url=f"{service.url}/v1", api_key=key, max_retries=0, http_client=http, timeout=300)


def image(data: str | None = None) -> dict:
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data or samples.image()}"}}


def file(data: str, kind: str = "application/pdf") -> dict:
    return {"type": "file", "file": {"filename": "a", "file_data": f"data:{kind};base64,{data}"}}


def turn(*parts: dict | str) -> list[Any]:
    content = [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
    return [{"role": "user", "content": content}]


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
    assert said["models"]["vlm"] == {"model": MODEL, "demo": True} and not said["partial"]
    assert said["notes"] == ["temperature: no effect, a document's text is what stands there."]


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


def test_a_page_of_a_pdf_is_sent_while_the_next_is_read(client, vlm):
    """The VLM answers for the second page, which is as wide as none other, once the first is here."""
    first_is_here, answer = threading.Event(), vlm.answer

    def one_after_the_other(request: dict, number: int) -> Any:
        text = answer(request, number)
        if "320 x" in text:
            first_is_here.wait(60)
        return text

    vlm.answer = one_after_the_other
    data = samples.pdf((595, 842), (200, 842))
    stream = client.chat.completions.create(model=MODEL, messages=turn(file(data)), stream=True)
    pieces = []
    for chunk in stream:
        if content := chunk.choices[0].delta.content:
            assert first_is_here.is_set() or "320 x" not in content
            first_is_here.set()
            pieces.append(content)
    assert "320 x" in "".join(pieces)


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


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no image": ({"messages": turn("What does it say?")}, "messages: the last turn has no images and files; expected"),
    "an image of the past": (
        {"messages": [*turn(image("AAAA")), {"role": "assistant", "content": "."}, *turn("What?")]},
        "messages: the last turn has no images",
    ),
    "two images": ({"messages": turn(image("AAAA"), image("AAAA"))}, "messages: the last turn has 2 images"),
    "two answers": ({"n": 2}, "n: 2 answers were asked for"),
    "tools": ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools: this service"),
    "JSON": ({"response_format": {"type": "json_object"}}, "response_format: the answer is Markdown"),
    "audio": ({"modalities": ["text", "audio"]}, "modalities: the answer is text"),
    "logprobs": ({"logprobs": True}, "logprobs: a page"),
    "a word for a flag": ({"stream": "yes"}, "stream: Input should be a valid boolean; got 'yes'"),
    "no messages": ({"messages": []}, "messages: List should have at least 1 item"),
    "a number for messages": ({"messages": 1}, "messages: Input should be a valid list; got 1"),
    "an unknown part": ({"messages": turn({"type": "input_audio"})}, "messages.0.content.0: type: 'input_audio'"),
    "a part without its image": ({"messages": turn({"type": "image_url"})}, "messages.0.content.0: image_url: missing"),
    "a file's id": (
        {"messages": turn({"type": "file", "file": {"file_id": "file-1"}})},
        "messages.0.content.0: file.file_id: this service keeps no files",
    ),
    "no base64": ({"messages": turn(image("*"))}, "messages.0.content.0.image_url.url: not base64"),
    "much that is no base64": (
        {"messages": turn(image("AAA=" * 400_000))},
        "messages.0.content.0.image_url.url: not base64",
    ),
    "no document": (
        {"messages": turn(file("AAAA"))},
        "messages.0.content.0.file.file_data: neither an image nor a PDF",
    ),
    "an empty one": (
        {"messages": turn({"type": "image_url", "image_url": {"url": ""}})},
        "messages.0.content.0.image_url.url: the document is empty",
    ),
    "a damaged one": (
        {"messages": turn(file(samples.encode(b"%PDF-1.4\nnothing")))},
        "messages.0.content.0.file.file_data: ",
    ),
    "an address": (
        {"messages": turn({"type": "image_url", "image_url": {"url": "https://example.org/a.png"}})},
        "messages.0.content.0.image_url.url: this service fetches no URLs",
    ),
    "a file of the machine": (
        {"messages": turn({"type": "image_url", "image_url": {"url": "file:///etc/passwd"}})},
        "messages.0.content.0.image_url.url: this service fetches no URLs",
    ),
    "a wrong option": ({"options": {"layoutThreshold": 7}}, "options.layoutThreshold"),
    "a task of other models": (
        {"options": {"promptLabel": "seal", "useLayoutDetection": False}},
        "promptLabel: 'seal'",
    ),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("stream", [False, True])
def test_bad_requests(service, client, case: str, stream: bool):
    fields, words = BAD[case]
    body = {"model": MODEL, "messages": turn(image()), "stream": stream, **fields}
    answer = service.client.post(CHAT, json=body)
    assert answer.status_code == 400, answer.text
    said = answer.json()
    assert said["error"]["message"].startswith(words) and said["error"]["type"] == "invalid_request_error"
    assert said["errorCode"] == 400 and said["errorMsg"] == said["error"]["message"]
    assert said["error"]["param"] == words.partition(": ")[0]
    if not stream and fields.keys() <= {"n", "tools", "response_format"}:
        with pytest.raises(openai.BadRequestError, match=words[:10]):
            client.chat.completions.create(**body)


def test_an_unknown_model(client):
    with pytest.raises(openai.NotFoundError, match="model: 'gpt-4o' does not exist here; there is PaddleOCR-VL-0.9B"):
        client.chat.completions.create(model="gpt-4o", messages=turn(image()))


@pytest.mark.parametrize(
    ("data", "setting"),
    [
        (lambda: samples.png_of_zeros(4000, 3000), "PARSER_MAX_IMAGE_PIXELS"),
        (lambda: samples.pdf(*[(595, 842)] * 7), "PARSER_MAX_PAGES"),
        (lambda: samples.encode(bytes(8 << 20)), "PARSER_MAX_BODY_MIB"),
    ],
    ids=["pixels", "pages", "bytes"],
)
def test_beyond_a_limit(client, data, setting: str):
    with pytest.raises(openai.APIStatusError, match=setting) as caught:
        client.chat.completions.create(model=MODEL, messages=turn(file(data())))
    assert caught.value.status_code == 413


def test_no_other_path(service):
    for method, path, status in (("GET", CHAT, 405), ("POST", "/v1/completions", 404), ("POST", "/v1/embeddings", 404)):
        answer = service.client.request(method, path, json={})
        assert answer.status_code == status and answer.json()["error"]["message"] == answer.json()["errorMsg"]


@pytest.mark.parametrize("body", [b"{", b'{"model": NaN}', b"[]", b"", b"\xff"])
def test_what_is_no_request(service, body: bytes):
    answer = service.client.post(CHAT, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400 and answer.json()["error"]["message"]


def test_the_vlm_refuses_every_block(client, vlm):
    vlm.answer = lambda request, number: (400, "not this one")
    with pytest.raises(openai.BadRequestError, match="refused every block"):
        client.chat.completions.create(model=MODEL, messages=turn(image()), stream=True)


def test_a_page_that_failed_is_named(client, vlm):
    answer = vlm.answer

    def refuses_narrow_pages(request: dict, number: int) -> Any:
        return (400, "too narrow") if "320 x" in answer(request, number) else answer(request, number)

    vlm.answer = refuses_narrow_pages
    vlm.finish_reason = "length"
    parts = turn(file(samples.pdf((200, 842), (595, 842))))
    *_, last = client.chat.completions.create(model=MODEL, messages=parts, stream=True)
    report = last.model_extra["docparser"]
    assert last.choices[0].finish_reason == "length" and report["partial"]
    assert {note["kind"] for note in report["pages"][0]["blocks"]} >= {"refused"}


def test_what_fails_amid_a_stream_is_said_in_it(client, service, vlm, own_vlm):
    """The first page is out when the VLM goes away for good."""
    holding, answer = threading.Event(), vlm.answer

    def hold_narrow_pages(request: dict, number: int) -> Any:
        text = answer(request, number)
        if "320 x" in text:
            holding.wait(60)
        return text

    vlm.answer = hold_narrow_pages
    parts = turn(file(samples.pdf((595, 842), (200, 842))))
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
        if not streams or "320 x" in text:
            release.wait(60)
        return text

    vlm.answer = hold
    before = service.metrics().get('docparser_pages_total{outcome="abandoned"}', 0)
    body = {"model": MODEL, "messages": turn(file(samples.pdf((595, 842), (200, 842)))), "stream": True}
    try:
        leaving = httpx.Client(base_url=service.url, trust_env=False, timeout=60 if streams else 1)
        with leaving, contextlib.suppress(httpx.ReadTimeout), leaving.stream("POST", CHAT, json=body) as response:
            assert next(response.iter_lines()).startswith("data: ")
        wait_for(lambda: service.metrics()['docparser_pages_total{outcome="abandoned"}'] >= before + 1)
    finally:
        release.set()
    wait_for(lambda: not spooled(service))
    wait_for(lambda: service.metrics()["docparser_running_tasks"] == 0)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory, layout_model) -> Iterator[tuple[ParserProcess, Path]]:
    """A service with a key, a quota and an audit log; pages are simulated, so that it starts quickly."""
    folder, vlm = tmp_path_factory.mktemp("guarded"), SimulatedVlm()
    vlm.answer = lambda request, number: "a text\n\nof two blocks"
    settings = {
        "VLM_URL": vlm.url,
        "LAYOUT_MODEL_DIR": str(layout_model),
        "PARSER_API_KEYS": f"sha256:{digest('right')} name=reader pages=2/month",
        "PARSER_AUDIT_LOG": str(folder / "audit"),
        **LIMITS,
    }
    running = ParserProcess(folder, (), ("-m", "tests.support.simulated_page_work"), **settings)
    try:
        yield running.wait(), folder / "audit"
    finally:
        running.end()
        vlm.close()


def test_a_key_its_quota_and_the_audit_log(guarded):
    service, audit = guarded
    with openai_client(service, "wrong") as client, pytest.raises(openai.AuthenticationError) as caught:
        client.models.list()
    assert caught.value.code == "invalid_api_key" and "This key is not known here" in str(caught.value)
    with openai_client(service, "right") as client:
        parts = turn(image(samples.image(size=(100, 140))))
        for _ in range(2):
            answer = client.chat.completions.create(model=MODEL, messages=parts)
            text = answer.choices[0].message.content
            assert text is not None and text.startswith("a text\n\nof two blocks")
        with pytest.raises(openai.RateLimitError, match="pages=2/month") as limited:
            client.chat.completions.create(model=MODEL, messages=parts)
        assert int(limited.value.response.headers["Retry-After"]) > 0
        assert limited.value.response.json()["quota"]["name"] == "pages/month"
    unread = service.client.post(CHAT, content=b"no JSON", headers={"Authorization": "Bearer right"})
    assert unread.status_code == 429, "before the body is looked at"
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    read = [line for line in lines if line["event"] == "document.submitted"]
    assert [(line["client"], line["path"], line["status"]) for line in read] == [("reader", CHAT, 200)] * 2
    refused = {line["reason"] for line in lines if line["event"] == "request.refused"}
    assert {"key_unknown", "quota"} <= refused
