# SPDX-License-Identifier: Apache-2.0
"""What the middleware lets through to vLLM, which is simulated here; `test_server` has the real one."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from PIL import Image

from tests.plugin.chat import body, encode, image_part, text_part
from tests.support.wait import WAIT_S
from vlm_models import fields, middleware, parts
from vlm_models.media import DataUrlConnector
from vlm_models.middleware import ChatOnly
from vlm_models.pixels import PixelBudget
from vlm_server.command import served_names

CHAT = "/v1/chat/completions"
SIDE = 100
BOMB = encode(Image.new("1", (SIDE, SIDE)))


class Exchange:
    """One request to the middleware, and what came back."""

    def __init__(self, gate: ChatOnly, *parts: bytes, method: str = "POST", path: str = CHAT) -> None:
        self.gate, self.scope = gate, {"type": "http", "method": method, "path": path}
        last = len(parts) - 1
        self.incoming = [
            {"type": "http.request", "body": part, "more_body": place < last} for place, part in enumerate(parts)
        ]
        self.sent: list[Any] = []

    async def run(self) -> Exchange:
        await self.gate(self.scope, self.receive, self.send)
        return self

    async def receive(self) -> Any:
        if not self.incoming:
            await asyncio.Event().wait()
        return self.incoming.pop(0)

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    @property
    def status(self) -> int:
        return self.sent[0]["status"]

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.sent[0]["headers"])

    @property
    def message(self) -> str:
        return json.loads(self.sent[1]["body"])["error"]["message"]


class Vllm:
    """The simulated server: records what arrives, and lets `work` do something with it."""

    def __init__(self, work: Callable[[dict[str, Any]], Awaitable[None]] | None = None) -> None:
        self.arrived: list[bytes] = []
        self.work = work

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["method"] == "POST":
            self.arrived.append((await receive())["body"])
            if self.work:
                await self.work(json.loads(self.arrived[-1]))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})


def ask(*parts: bytes, **options: str) -> tuple[Exchange, list[bytes]]:
    """One request by itself, and what arrived behind the middleware."""
    vllm = Vllm()

    async def run() -> Exchange:
        return await Exchange(ChatOnly(vllm), *parts, **options).run()

    return asyncio.run(asyncio.wait_for(run(), WAIT_S)), vllm.arrived


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/v1/completions"), ("POST", "/tokenize"), ("DELETE", CHAT + "/x")]
)
def test_closed_paths(method: str, path: str):
    exchange, _ = ask(b"{}", method=method, path=path)
    assert exchange.status == 404 and path in exchange.message


def test_open_requests_arrive_whole():
    assert ask(method="GET", path="/health")[0].status == 200
    sent = json.dumps({"model": "m", "messages": [], "tools": None, "mm_processor_kwargs": {"min_pixels": 1}}).encode()
    exchange, arrived = ask(sent[:10], sent[10:])
    assert exchange.status == 200 and arrived == [sent]


# What clients send: every field with a value that is accepted, the ends of each bound among them.
ACCEPTED: dict[str, list[Any]] = {
    "model": ["PaddleOCR-VL-0.9B"],
    "messages": [[], [{**body(image_part(BOMB))["messages"][0], "name": None, "tool_calls": None}]],
    "stream": [True, False],
    "stream_options": [{"include_usage": True}, {}],
    "user": ["å"],
    "request_id": ["r-1"],
    "max_tokens": [1, 4096],
    "max_completion_tokens": [1, 4096],
    "n": [1, 8],
    "seed": [0, -1, 2**63 - 1],
    "stop": ["a", ["a", "b"], []],
    "temperature": [0, 0.0, 2],
    "top_p": [1, 0.001],
    "top_k": [-1, 0, 50],
    "min_p": [0, 1.0],
    "repetition_penalty": [1, 1.05, 0.1],
    "presence_penalty": [-2, 2.0],
    "frequency_penalty": [-2, 2.0],
    "logprobs": [True],
    "top_logprobs": [0, 20],
    "skip_special_tokens": [True],
    "spaces_between_special_tokens": [False],
    "return_token_ids": [True],
    "return_tokens_as_token_ids": [True],
    "mm_processor_kwargs": [{"min_pixels": 112896, "max_pixels": 1003520}, {}],
}


@pytest.mark.parametrize("field", sorted(fields.FIELDS))
def test_what_clients_send_passes(field: str):
    for value in (*ACCEPTED[field], None):
        sent = json.dumps({field: value}).encode()
        exchange, arrived = ask(sent)
        assert exchange.status == 200 and arrived == [sent], (field, value)


def test_images_pass_in_every_form_that_vllm_knows():
    part = image_part(BOMB)
    url = part["image_url"]["url"]
    for image in (part, {**part, "image_url": {"url": url, "detail": "high"}}, {"image_url": url}):
        assert ask(json.dumps(body(image, text_part())).encode())[0].status == 200


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


@pytest.mark.parametrize("content", ["OCR:", [], ["OCR:"], [text_part()], None])
def test_a_request_without_an_image_is_refused(content: Any, monkeypatch):
    sent = json.dumps({"messages": [{"role": "user", "content": content}]}).encode()
    exchange, arrived = ask(sent)
    assert exchange.status == 400 and exchange.message.startswith("messages: no image") and not arrived
    monkeypatch.setenv("VLM_FAMILY", "qwen2_vl")
    assert ask(sent)[0].status == 200, "this family answers questions, too"


class Json(str):
    """JSON as it is written, for what Python's writer does not write."""


DEEP = Json('{"a":' * 400 + "1" + "}" * 400)
# field -> values that are refused: strings and fractions that vLLM would coerce, numbers out of bounds, other types.
REFUSED: dict[str, list[Any]] = {
    **{name: [1, "true", [], {}] for name, kind in fields.REQUEST.keys.items() if isinstance(kind, fields.Flag)},
    **{
        name: ["1", 1.0, 1e9, Json("1e999"), True, [1], {}, kind.least - 1, kind.most + 1]
        for name, kind in fields.REQUEST.keys.items()
        if isinstance(kind, fields.Whole)
    },
    **{
        name: [
            "1",
            Json("1e999"),
            Json("-1e999"),
            1e308,
            -1e308,
            10**400,
            True,
            [1],
            {},
            kind.least - 0.1,
            kind.most + 0.1,
        ]
        for name, kind in fields.REQUEST.keys.items()
        if isinstance(kind, fields.Number)
    },
    **{
        name: [1, [], {}, "x" * 1000, "\ud800"]
        for name, kind in fields.REQUEST.keys.items()
        if isinstance(kind, fields.Text)
    },
    "stop": [1, [1], [["a"]], ["a"] * 17, "a" * 1000, {"a": 1}, DEEP],
    "stream_options": [[], "x", {"include_usage": 1}, {"other": 1}, DEEP],
    "mm_processor_kwargs": [[], {"max_pixels": "12"}, {"patch_size": 7}, {"max_pixels_bound": 10**9}, DEEP],
    "messages": [
        "x",
        {},
        [[]],
        ["x"],
        [{"role": "user", "content": ""}] * 65,
        [{"role": 1}],
        [{"role": "user", "content": 1}],
        [{"role": "user", "content": [1]}],
        [{"role": "user", "content": ["a"] * 65}],
        [{"role": "user", "content": "\ud800"}],
        [{"role": "user", "content": [{"type": "text", "text": 1}]}],
        [{"role": "user", "content": [{"type": "text", "text": DEEP}]}],
        [{"role": "user", "content": [{"type": "image_url", "image_url": []}]}],
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": {}}}]}],
        [{"role": "user", "content": [{"type": "video_url", "video_url": {"url": []}}]}],
        [{"role": "user", "content": [{"type": "audio_url", "audio_url": {"url": "data:,"}}]}],
        [{"role": "user", "content": "x" * (fields.MAX_WORDS_BYTES + 1)}],
    ],
}


def written(value: Any) -> str:
    if isinstance(value, Json):
        return value
    if isinstance(value, list):
        return "[" + ",".join(map(written, value)) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{written(one)}" for key, one in value.items()) + "}"
    return json.dumps(value)


@pytest.mark.parametrize("field", sorted(fields.FIELDS))
def test_what_vllm_would_coerce_or_compute_for_ever_is_refused(field: str):
    for value in REFUSED[field]:
        exchange, arrived = ask(written({field: value}).encode())
        assert exchange.status == 400 and not arrived, (field, value)
        assert field in exchange.message or "without its images" in exchange.message, exchange.message
        assert "expected" in exchange.message or "known are" in exchange.message, exchange.message
        assert len(exchange.message) < 800


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (b'{"n": "1000"}', "n: '1000' is not accepted; expected a whole number from 1 to 8"),
        (b'{"n": 1000.0}', "n: 1000.0 is not accepted; expected a whole number from 1 to 8"),
        (b'{"temperature": 1e999}', "temperature: inf is not accepted; expected a number from 0 to 2"),
        (b'{"temperature": NaN}', "NaN is no number of JSON"),
        (b'{"top_logprobs": {}}', "top_logprobs: an object of 0 is not accepted; expected a whole number from 0 to 20"),
        (b'{"logit_bias": {"1": 100}}', "logit_bias: is not accepted by this server; known are frequency_penalty"),
        (b'{"structured_outputs": {"regex": "a"}}', "structured_outputs: is not accepted"),
        (b'{"chat_template": "x"}', "chat_template: is not accepted"),
        (b'{"best_of": 9}', "best_of: is not accepted"),
        (b'{"prompt_logprobs": 9}', "prompt_logprobs: is not accepted"),
        (b'{"\\ud800": 1}', "\\ud800: is not accepted"),
        (b"[]", "the body is a list of 0; expected a JSON object with frequency_penalty"),
        (b"1", "the body is 1; expected a JSON object"),
        (b"null", "the body is null; expected a JSON object"),
        (b"{", "the body is no JSON"),
        (b"\xff", "the body is no JSON"),
        (b'{"seed": 1' + b"0" * 5000 + b"}", "the body is no JSON"),
        (b"[" * 60_000, "the body is nested too deeply"),
        (b"[" + b"[]," * 100_000 + b"[]]", "commas and brackets; expected at most 65536"),
    ],
    ids=lambda value: ascii(value[:40]),
)
def test_refusals_name_key_value_and_expectation(sent: bytes, words: str):
    exchange, arrived = ask(sent)
    assert exchange.status == 400 and words in exchange.message and not arrived


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (encode(Image.new("P", (9, 9)), "GIF"), "format is not known (send PNG, JPEG, TIFF, BMP or WEBP)"),
        (encode(Image.new("RGB", (32, 32)), "ICO"), "format is not known"),
        (b"%PDF-1.4", "format is not known"),
        (b"", "empty"),
        (encode(Image.new("1", (16000, 10000))), "16000 x 10000 pixels, more than 150000000"),
        ("data:image/png;base64,%%%", "base64"),
        ("http://127.0.0.1:9/x.png", "opens no URLs"),
    ],
    ids=["GIF", "ICO", "PDF", "empty", "enormous", "bad base64", "http URL"],
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


def budget_of(gate: ChatOnly, pixels: int) -> PixelBudget:
    gate.pixels = PixelBudget(pixels)
    return gate.pixels


def test_twelve_bombs_are_decoded_within_the_budget():
    """As vLLM does it: decoded by our connector, all images of a request together, then freed."""
    connector, images_alive, most = DataUrlConnector(), 0, 0

    async def run() -> None:
        async def work(document: dict[str, Any]) -> None:
            nonlocal images_alive, most
            urls = [url for _, _, url in parts.media_urls(document)]
            images = await asyncio.gather(*map(connector.fetch_image_async, urls))
            images_alive += len(images)
            most = max(most, images_alive)
            await asyncio.sleep(0.001)
            images_alive -= len(images)

        gate = ChatOnly(Vllm(work))
        budget = budget_of(gate, 3 * SIDE * SIDE)
        sent = [json.dumps(body(*[image_part(BOMB)] * count)).encode() for count in (1, 2, 3, 1, 2, 3)]
        done = await asyncio.gather(*(Exchange(gate, one).run() for one in sent))
        assert [exchange.status for exchange in done] == [200] * 6
        assert most == 3 and budget.used == 0

    asyncio.run(asyncio.wait_for(run(), WAIT_S))


def test_room_is_free_when_the_images_are_long_before_the_answer():
    async def run() -> None:
        decoded, end = asyncio.Event(), asyncio.Event()

        async def work(document: dict[str, Any]) -> None:
            ((_, _, url),) = parts.media_urls(document)
            image = await DataUrlConnector().fetch_image_async(url)
            assert budget.used == image.width * image.height
            del image
            gc.collect()
            decoded.set()
            await end.wait()

        gate = ChatOnly(Vllm(work))
        budget = budget_of(gate, SIDE * SIDE)
        task = asyncio.create_task(Exchange(gate, json.dumps(body(image_part(BOMB))).encode()).run())
        await decoded.wait()
        room = await budget.take(SIDE * SIDE, WAIT_S)  # while the first request is still being answered
        room.close()
        end.set()
        assert (await task).status == 200 and budget.used == 0

    asyncio.run(asyncio.wait_for(run(), WAIT_S))


def test_without_room_there_is_a_503_and_texts_do_not_wait(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(middleware, "PATIENCE_S", 0.01)

    async def run() -> None:
        vllm = Vllm()
        gate = ChatOnly(vllm)
        budget = budget_of(gate, SIDE * SIDE)
        room = await budget.take(1, 60)
        sent = json.dumps(body(image_part(BOMB))).encode()
        refused = await Exchange(gate, sent).run()
        assert refused.status == 503 and refused.headers[b"retry-after"] == b"5" and not vllm.arrived
        room.close()
        assert (await Exchange(gate, sent).run()).status == 200
        too_many = await Exchange(gate, json.dumps(body(*[image_part(BOMB)] * 2)).encode()).run()
        assert too_many.status == 400 and "VLM_MEGAPIXELS_IN_FLIGHT" in too_many.message
        assert budget.used == 0

    asyncio.run(asyncio.wait_for(run(), WAIT_S))


def test_who_waits_gets_room_in_turn_and_who_leaves_holds_nobody_up():
    async def run() -> None:
        budget, order = PixelBudget(10), []

        async def take(name: str, pixels: int) -> None:
            room = await budget.take(pixels, 60)
            order.append(name)
            await asyncio.sleep(0)
            room.close()
            room.close()

        first = await budget.take(8, 60)
        large = asyncio.create_task(take("large", 10))
        others = [asyncio.create_task(take(name, 2)) for name in ("small", "smaller")]
        await asyncio.sleep(0)
        assert order == [], "the small ones do not overtake"
        large.cancel()
        await asyncio.gather(*others)
        assert order == ["small", "smaller"] and budget.used == 8
        first.close()
        await take("last", 10)
        assert budget.used == 0

    asyncio.run(asyncio.wait_for(run(), WAIT_S))


def test_the_operators_bound(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("VLM_MEGAPIXELS_IN_FLIGHT", "7")
    assert ChatOnly(Vllm()).pixels.most == 7_000_000
    for wrong in ("0", "-1", "1.5", "x", "1234567"):
        monkeypatch.setenv("VLM_MEGAPIXELS_IN_FLIGHT", wrong)
        with pytest.raises(ValueError, match=f"VLM_MEGAPIXELS_IN_FLIGHT is '{wrong}'; expected millions"):
            ChatOnly(Vllm())
