# SPDX-License-Identifier: Apache-2.0
"""The OpenAI API: requests that are refused, before and after the `openai` package has looked at them; limits, keys."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from tests.parser.chat import CHAT, MODEL, file, image, openai_client, turn
from tests.support import samples
from tests.support.parser_process import ParserProcess


@pytest.fixture
def client(service: ParserProcess) -> Iterator[openai.OpenAI]:
    with openai_client(service, "any") as client:
        yield client


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


@pytest.mark.parametrize(
    ("case", "stream"),
    # The body is checked before anything streams; of what is found in it, and of what is found in the document, one.
    [*((case, False) for case in BAD), ("a wrong option", True), ("a damaged one", True)],
)
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


def test_a_key_its_quota_and_the_audit_log(guarded, page_vlm):
    service, audit = guarded, guarded.log.parent / "audit"
    page_vlm.answer = lambda request, number: "a text\n\nof two blocks"
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
    read = [line for line in lines if line["event"] == "document.submitted" and line["client"] == "reader"]
    assert [(line["path"], line["status"]) for line in read] == [(CHAT, 200)] * 2
    refused = {line["reason"] for line in lines if line["event"] == "request.refused"}
    assert {"key_unknown", "quota"} <= refused
