# SPDX-License-Identifier: Apache-2.0
"""What the middleware lets through to vLLM, which is simulated here; `test_server` has the real one."""

from __future__ import annotations

import asyncio
import hashlib
import json
from typing import Any

import pytest
from PIL import Image

from tests.plugin.chat import body, encode, image_part, text_part
from tests.plugin.gate import BOMB, CHAT, Exchange, Vllm, ask
from tests.support.wait import WAIT_S
from vlm_models import middleware
from vlm_models.middleware import ChatOnly
from vlm_server.words import keys, served_names, without


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/v1/completions"), ("POST", "/tokenize"), ("DELETE", CHAT + "/x")]
)
def test_closed_paths(method: str, path: str):
    exchange, _ = ask(b"{}", method=method, path=path)
    assert exchange.status == 404 and path in exchange.message


def test_open_requests_arrive_whole():
    assert ask(method="GET", path="/health")[0].status == 200
    sent = json.dumps(
        {"model": "m", "messages": None, "tools": None, "mm_processor_kwargs": {"min_pixels": 1}}
    ).encode()
    exchange, arrived = ask(sent[:10], sent[10:])
    assert exchange.status == 200 and arrived == [sent]


def test_images_pass_in_every_form_that_vllm_knows():
    part = image_part(BOMB)
    url = part["image_url"]["url"]
    for image in (part, {**part, "image_url": {"url": url, "detail": "high"}}, {"image_url": url}):
        assert ask(json.dumps(body(image, text_part())).encode())[0].status == 200
    sent = body({"type": "input_image", "image_url": {"url": url, "detail": None}}, text_part())
    sent["messages"][0] |= {"name": None, "tool_calls": None}
    exchange, (arrived,) = ask(json.dumps(sent).encode())
    assert exchange.status == 200 and json.loads(arrived) == body(part, text_part())


def test_no_text_and_no_image_is_passed_over():
    part = image_part(BOMB)
    exchange, (arrived,) = ask(json.dumps(body("OCR:", part)).encode())
    assert exchange.status == 200 and json.loads(arrived) == body(text_part("OCR:"), part)
    exchange, passed = ask(json.dumps(body({**text_part(), **part, "type": "text"})).encode())
    assert exchange.status == 400 and not passed
    assert exchange.message == (
        "messages[0].content[0].image_url: a part of type 'text' has none; expected it in a part of its own"
    )


def test_no_two_requests_have_one_id():
    """By which vLLM 0.11.1 would find what it kept of the first one's image."""
    vllm, sent = Vllm(), body({**image_part(BOMB), "uuid": "mine"}, text_part(), request_id="mine")

    async def run() -> tuple[bytes, dict[str, Any]]:
        exchange = Exchange(ChatOnly(vllm), json.dumps(sent).encode(), **{"x-request-id": "order-17", "x-other": "1"})
        assert (await exchange.run()).status == 200
        return vllm.headers[b"x-request-id"], json.loads(vllm.arrived[-1])

    (header, document), (other_header, other) = asyncio.run(run()), asyncio.run(run())
    assert header != other_header and header.startswith(b"order-17-") and vllm.headers[b"x-other"] == b"1"
    assert document["request_id"] != other["request_id"] and document["request_id"].startswith("mine-")
    del sent["messages"][0]["content"][0]["uuid"]
    assert document == {**sent, "request_id": document["request_id"]}


def test_another_model_is_refused_with_the_way_to_this_one(monkeypatch):
    monkeypatch.setenv("VLM_SERVED_NAMES", "PaddleOCR-VL-1.5-0.9B,PaddleOCR-VL-1.5")
    sent = body(image_part(BOMB), model="PaddleOCR-VL-1.6-0.9B")
    exchange, arrived = ask(json.dumps(sent).encode())
    assert exchange.status == 404 and not arrived
    assert exchange.message == (
        "model: 'PaddleOCR-VL-1.6-0.9B' is not served here; expected PaddleOCR-VL-1.5-0.9B or PaddleOCR-VL-1.5; "
        'PaddleOCRVL asks for it with pipeline_version="v1.5"'
    )
    for name in ("PaddleOCR-VL-1.5-0.9B", "PaddleOCR-VL-1.5"):
        assert ask(json.dumps({**sent, "model": name}).encode())[0].status == 200


@pytest.mark.parametrize("name", [["--served-model-name", "a", "b", "--port", "1"], ["--served-model-name=a", "b"]])
def test_the_launcher_says_the_names(name: list[str]):
    assert served_names(["serve", "--served-model-name", "c", "--x", *name]) == ["a", "b"]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ([], ["e"]),
        (["--api-key", "a", "b", "--port", "1"], ["a", "b"]),
        (["--api-key", "c", "--api_key=a"], ["a"]),
        (["--api-key", ""], []),
    ],
)
def test_the_launcher_knows_the_keys(words: list[str], found: list[str]):
    """As vLLM takes them: VLLM_API_KEY where the command line has none."""
    assert keys(["serve", *words], {"VLLM_API_KEY": "e"}) == found
    assert keys(["serve"], {}) == []
    kept = without(["serve", *words], "--api-key")
    assert kept == (["serve", "--port", "1"] if "--port" in words else ["serve"])


@pytest.mark.parametrize(
    ("said", "status"),
    [
        *(("Bearer first", 200), ("bearer other \u00fc", 200)),
        *((None, 401), ("", 401), ("first", 401), ("Basic first", 401), ("Bearer  first", 401), ("Bearer firs", 401)),
    ],
)
def test_who_has_no_key_is_answered_before_a_body_is_read(said: str | None, status: int, monkeypatch):
    digests = [hashlib.sha256(key.encode()).hexdigest() for key in ("first", "other \u00fc")]
    monkeypatch.setenv("VLM_KEY_DIGESTS", ",".join(digests))
    vllm = Vllm()

    async def run() -> Exchange:
        exchange = Exchange(ChatOnly(vllm), json.dumps(body(image_part(BOMB))).encode())
        if said is not None:
            exchange.scope["headers"] = [(b"authorization", said.encode("latin-1"))]
        if status != 200:
            exchange.incoming.clear()  # who reads a body waits for ever
        return await exchange.run()

    exchange = asyncio.run(asyncio.wait_for(run(), WAIT_S))
    assert exchange.status == status and bool(vllm.arrived) == (status == 200)
    if status != 200:
        assert json.loads(exchange.sent[1]["body"]) == {"error": "Unauthorized"}, "vLLM's words"
    assert ask(method="GET", path="/health")[0].status == 200


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_lists_need_the_key_too_and_health_does_not(method: str, monkeypatch: pytest.MonkeyPatch):
    """vLLM itself knows no key."""
    monkeypatch.setenv("VLM_KEY_DIGESTS", hashlib.sha256(b"first").hexdigest())
    for path in ("/v1/models", "/v1/responses/1"):
        assert ask(method=method, path=path)[0].status == 401
        assert ask(method=method, path=path, authorization="Bearer first")[0].status == 200
    for path in ("/health", "/metrics"):
        assert ask(method=method, path=path)[0].status == 200


@pytest.mark.parametrize(
    ("method", "path"), [("POST", CHAT), ("OPTIONS", CHAT), ("GET", "/v1/models"), ("HEAD", "/health"), ("DELETE", "/")]
)
def test_no_web_page_is_answered(method: str, path: str):
    sent = json.dumps(body(image_part(BOMB))).encode()
    for origin in ("https://example.org", "null", "http://127.0.0.1:8000"):
        exchange, arrived = ask(sent, method=method, path=path, origin=origin)
        assert exchange.status == 403 and exchange.message.startswith("Origin: ") and not arrived
        assert not any(name.startswith(b"access-control") for name in exchange.headers)


def test_no_websocket_is_opened():
    vllm, sent = Vllm(), list[Any]()

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    asyncio.run(ChatOnly(vllm)({"type": "websocket", "path": "/v1/realtime", "headers": []}, receive, send))
    assert [message["type"] for message in sent] == ["websocket.close"] and not vllm.headers


@pytest.mark.parametrize("content", ["OCR:", [], ["OCR:"], [text_part()], None])
def test_a_request_without_an_image_is_refused(content: Any, monkeypatch):
    sent = json.dumps({"messages": [{"role": "user", "content": content}]}).encode()
    exchange, arrived = ask(sent)
    assert exchange.status == 400 and exchange.message.startswith("messages: no image") and not arrived
    monkeypatch.setenv("VLM_FAMILY", "qwen2_vl")
    assert ask(sent)[0].status == 200, "this family answers questions, too"


@pytest.mark.parametrize("family", ["paddleocr_vl", "qwen2_vl", "hunyuan_vl"])
def test_a_request_without_messages_is_refused(family: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("VLM_FAMILY", family)
    exchange, arrived = ask(b'{"messages": []}')
    assert exchange.status == 400 and not arrived
    assert exchange.message == "messages: a list of 0 is not accepted; expected a list of 1 to 64"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (encode(Image.new("P", (9, 9)), "GIF"), "format is not known (send PNG, JPEG, TIFF, BMP or WEBP)"),
        (encode(Image.new("RGB", (32, 32)), "ICO"), "format is not known"),
        (b"%PDF-1.4", "format is not known"),
        (b"", "empty"),
        (encode(Image.new("1", (16000, 10000))), "16000 x 10000 pixels, more than 150000000"),
        ("data:image/png;base64,%%%", "base64"),
        ("data:image/png,abc", "base64"),
        ("http://127.0.0.1:9/x.png", "opens no URLs"),
        ("file:///etc/hostname", "opens no URLs"),
    ],
    ids=["GIF", "ICO", "PDF", "empty", "enormous", "bad base64", "no base64", "http URL", "file URL"],
)
def test_images_that_are_refused_by_their_headers(data: bytes | str, words: str):
    exchange, arrived = ask(json.dumps(body(text_part(), image_part(data))).encode())
    assert exchange.status == 400 and words in exchange.message and not arrived
    assert exchange.message.startswith("messages[0].content[1].image_url: ")


def test_a_body_without_end(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(middleware, "MAX_BODY_BYTES", 10)
    exchange, _ = ask(b"12345678", b"12345678", b"1")
    assert exchange.status == 413 and "larger than 10 bytes" in exchange.message


def test_a_body_that_does_not_come(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(middleware, "BODY_TIMEOUT_S", 0.01)

    async def run() -> Exchange:
        exchange = Exchange(ChatOnly(Vllm()), b'{"n"', b"")
        exchange.incoming.pop()
        return await exchange.run()

    exchange = asyncio.run(asyncio.wait_for(run(), WAIT_S))
    assert exchange.status == 408 and exchange.headers[b"connection"] == b"close"


def test_bodies_of_all_requests_are_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(middleware, "MAX_BODIES_BYTES", 100)

    async def run() -> None:
        begun, end = asyncio.Event(), asyncio.Event()

        async def work(_: Any) -> None:
            begun.set()
            await end.wait()

        gate = ChatOnly(Vllm(work))
        first = asyncio.create_task(Exchange(gate, b'{"user": "%s"}' % (b"x" * 50)).run())
        await begun.wait()
        refused = await Exchange(gate, b'{"user": "%s"}' % (b"x" * 50)).run()
        assert refused.status == 503 and refused.headers[b"retry-after"] == b"5"
        assert (await Exchange(gate, b"[]").run()).status == 400
        end.set()
        assert (await first).status == 200 and gate.bodies == 0

    asyncio.run(asyncio.wait_for(run(), WAIT_S))
