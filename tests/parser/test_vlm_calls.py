# SPDX-License-Identifier: Apache-2.0
"""The calls of the VLM's client: what is asked, what an answer comes to, and when a call is tried again. The connection
is simulated; `test_vlm_away` has real ones."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Coroutine
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest

from docparser.errors import VlmUnavailable
from docparser.settings import Settings
from docparser.vlm import client as client_module
from docparser.vlm import failures
from docparser.vlm.client import COUNTED, Reply, VlmClient
from docparser.vlm.endpoints import CallLimit
from docparser.vlm.failures import (
    FIRST_PAUSE_S,
    LONGEST_FAULT_PAUSE_S,
    LONGEST_PAUSE_S,
    BlockNote,
    BlockRefused,
    CallFailed,
)
from docparser.vlm.repetition import BAND, TEXT
from docparser.vlm.reply import ASKED
from selftest.server import OTHER_SAMPLING

TEXT_OF = "some text"
USAGE = {"prompt_tokens": 30, "completion_tokens": 4}
LOOP = "Begins. " + "round and round " * 60


def whole(text: str = TEXT_OF, reason: str | None = "stop", logs: tuple[float, ...] = ()) -> bytes:
    choice: dict[str, Any] = {"message": {"content": text}, "finish_reason": reason}
    if logs:
        choice["logprobs"] = {"content": [{"logprob": log} for log in logs]}
    return json.dumps({"choices": [choice], "usage": USAGE}).encode()


def events(*pieces: str, reason: str | None = "stop", done: bool = True) -> list[bytes]:
    said: list[Any] = [{"choices": [{"delta": {"content": piece}, "finish_reason": None}]} for piece in pieces]
    said.append({"choices": [{"delta": {}, "finish_reason": reason}], "usage": USAGE})
    return [b"data: " + json.dumps(event).encode() + b"\n\n" for event in said] + [b"data: [DONE]\n\n"] * done


class Answer:
    """What a server says: ``body`` in one piece, or the events of a stream."""

    def __init__(self, body: bytes | list[bytes] = b"", status: int = 200, **headers: str) -> None:
        self.status, self._body = status, body
        kind = "text/event-stream" if isinstance(body, list) else "application/json"
        self.headers = {"Content-Type": kind, **{name.replace("_", "-"): value for name, value in headers.items()}}
        self.content = SimpleNamespace(iter_any=self._pieces)
        self.taken = 0

    async def _pieces(self) -> AsyncIterator[bytes]:
        for piece in self._body:
            assert isinstance(piece, bytes)
            self.taken += 1
            yield piece

    async def read(self) -> bytes:
        assert isinstance(self._body, bytes)
        return self._body

    async def __aenter__(self) -> Answer:
        return self

    async def __aexit__(self, *_: object) -> None:
        """There is no connection to close."""


class Session:
    def __init__(self, *answers: Answer | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, dict[str, Any], dict[str, str]]] = []

    def post(self, url: str, *, json: dict[str, Any], headers: dict[str, str], timeout: Any = None) -> Answer:
        self.asked.append((url, json, headers))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


class Limit(CallLimit):
    """With what it was told."""

    def __init__(self) -> None:
        super().__init__(start=4, lowest=1, highest=8, target_s=5.0)
        self.told: list[str] = []
        self.first: list[float | None] = []

    def answered(self, first_token_s: float | None) -> None:
        self.told.append("answered")
        self.first.append(first_token_s)

    def refused(self) -> None:
        self.told.append("refused")


def client_of(*answers: Answer | Exception, **settings: Any) -> Any:
    client: Any = VlmClient(Settings(**{"vlm_url": "http://vlm:1/v1", "workers": 1, **settings}))
    client._session, client.limit = Session(*answers), Limit()
    return client


def run(call: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(call, 60))


def one(client: Any, guard: Any = TEXT) -> Reply:
    return run(client._one_call({"model": "m"}, "request", guard))


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Those before calls that are tried again; no test waits for them."""
    waited: list[float] = []
    sleep = asyncio.sleep

    async def pause(seconds: float) -> None:
        waited.append(seconds)
        await sleep(0)

    monkeypatch.setattr(client_module.asyncio, "sleep", pause)
    monkeypatch.setattr(client_module.random, "uniform", lambda low, high: 1.0)
    return waited


@pytest.mark.parametrize("confidence", [False, True])
def test_what_is_asked(confidence: bool):
    client = client_of(Answer(whole()), confidence=confidence, vlm_api_key="secret")
    assert client._headers == {"Authorization": "Bearer secret"}
    one(client)
    ((url, body, headers),) = client._session.asked
    assert url == "http://vlm:1/v1/chat/completions"
    assert body == {"model": "m", **(ASKED if confidence else {}), "stream": True, "stream_options": COUNTED}
    name, _, tail = headers["X-Request-Id"].rpartition("-")
    assert name == "request" and len(tail) == 8
    assert client.counts == {"calls": 1} and client.limit.in_flight == 0


@pytest.mark.parametrize(
    ("workers", "concurrency", "start", "highest", "first"),
    [(1, 64, 16, 64, 16), (4, 64, 16, 16, 4), (4, 2, 1, 1, 1), (2, 64, 1000, 32, 32)],
)
def test_workers_share_the_calls(workers: int, concurrency: int, start: int, highest: int, first: int):
    own = Settings(workers=workers, vlm_concurrency=concurrency, vlm_concurrency_start=start, vlm_timeout_s=77)
    client = VlmClient(own)
    assert (client.limit._highest, client.limit.limit, client.limit._lowest) == (highest, first, min(4, highest))
    assert (client._timeout_s, VlmClient(own, 500)._timeout_s) == (77, 500)


@pytest.mark.parametrize(("workers", "first", "most"), [(2, 8, 2048), (16, 64, 2048), (32, 128, 2048)])
def test_calls_begin_as_a_cpu_bears_them_and_grow_to_the_seats_of_16_dies(workers: int, first: int, most: int):
    limit = VlmClient(Settings(workers=workers)).limit
    assert (workers * limit.limit, workers * limit._highest) == (first, most)


@pytest.mark.parametrize("streams", [False, True])
def test_an_answer_is_its_text_with_tokens_and_confidence(streams: bool):
    client = client_of(Answer(events("some ", "text") if streams else whole(logs=(-0.5, -0.5))), confidence=True)
    reply = one(client)
    assert (reply.text, reply.note, reply.tokens) == (TEXT_OF, None, (30, 4))
    assert reply.confidence == (None if streams else pytest.approx(0.6065, abs=1e-4))
    assert client.limit.told == ["answered"]
    (first,) = client.limit.first
    assert (0 <= first < 60) if streams else first is None


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(
    ("text", "reason", "kind"),
    [(TEXT_OF, "length", "length"), (LOOP, "stop", "repetition"), (LOOP, "length", "repetition")],
)
def test_text_that_was_cut_has_a_note(streams: bool, text: str, reason: str, kind: str):
    reply = one(client_of(Answer(events(text, reason=reason) if streams else whole(text, reason))))
    assert reply.note is not None and reply.note.kind == kind
    assert reply.text.startswith(text[:20]) and (len(reply.text) < 60) and reply.tokens[1] > 0


def test_a_loop_is_left_while_it_streams():
    pieces = events("Begins. ", *["round and round "] * 500)
    answer = Answer(pieces)
    client = client_of(answer)
    assert one(client, BAND).text == "Begins. round and round "
    assert answer.taken < 60 and client.limit.told == ["answered"] and client.limit.first[0] is not None


@pytest.mark.parametrize(
    ("answer", "words", "tries"),
    [
        (Answer(whole(reason="abort")), "ended its answer early", failures.LOST_TRIES),
        (Answer(events("a", reason=None, done=False)), "ended its answer early", failures.LOST_TRIES),
        (Answer(events("a", reason="error")), "ended its answer early", failures.LOST_TRIES),
        (Answer(b"{}"), "not a completion", failures.TRIES),
        (Answer([b"nonsense\n\n"]), "not a completion", failures.TRIES),
        (aiohttp.ServerDisconnectedError(), "hung up", failures.LOST_TRIES),
        (ConnectionResetError("reset"), "hung up on it \\(reset\\)", failures.LOST_TRIES),
        (TimeoutError(), "in time", failures.TIMED_OUT_TRIES),
        (aiohttp.ConnectionTimeoutError("no answer"), "no answer", None),
        (Answer(b"x", 429), "429: x", None),
        (Answer(b"x", 503), "503: x", None),
        (Answer(b"x", 502), "502: x", failures.LOST_TRIES),
        (Answer(b"x", 504), "504: x", failures.TIMED_OUT_TRIES),
        (Answer(b"x", 500), "500: x", failures.TRIES),
        (Answer(b"x", 408), "408: x", failures.TRIES),
        (Answer(b"x", 302), "302: x", failures.TRIES),
    ],
)
def test_a_call_that_failed_says_how_often_it_is_tried(answer: Any, words: str, tries: int | None):
    client = client_of(answer)
    (endpoint,) = client._endpoints.all
    with pytest.raises(CallFailed, match=words) as failed:
        one(client)
    assert failed.value.tries == tries and failed.value.note.message == str(failed.value)
    assert failed.value.note.kind == ("timeout" if tries == failures.TIMED_OUT_TRIES else "failed")
    assert failed.value.longest_pause_s == (LONGEST_PAUSE_S if tries is None else LONGEST_FAULT_PAUSE_S)
    full = getattr(answer, "status", 0) in (429, 502, 503, 504) or isinstance(answer, Exception)
    early = "early" in words
    assert client.limit.told == ["refused"] * (full or early)
    assert (endpoint.failures, endpoint.in_work, client.limit.in_flight) == (1, 0, 0)


@pytest.mark.parametrize("status", [400, 413, 422, 499])
def test_a_request_that_is_refused_is_the_blocks(status: int):
    client = client_of(Answer(b'{"message": "too wide"}', status))
    client._endpoints.all[0].failed()
    with pytest.raises(BlockRefused, match="too wide"):
        one(client)
    assert client.limit.told == ["answered"] and client._endpoints.all[0].failures == 0, "the server answers"


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_wrong_key_or_name_is_the_services(status: int):
    client = client_of(Answer(b"no", status))
    with pytest.raises(VlmUnavailable, match=f"http://vlm:1/v1 answers {status}: no"):
        one(client)
    assert client.presence.last_loss > 0 and client._endpoints.all[0].failures == 1


@pytest.mark.parametrize(
    ("said", "pause"), [("1", 1.0), ("0", 0.0), ("600", LONGEST_PAUSE_S), ("", FIRST_PAUSE_S), ("soon", FIRST_PAUSE_S)]
)
def test_a_server_says_how_long_to_wait(pauses: list[float], said: str, pause: float):
    client = client_of(Answer(b"x", 503, Retry_After=said), Answer(whole()))
    assert run(client.read_block({}, "r", TEXT)).text == TEXT_OF
    expected = pause or FIRST_PAUSE_S  # 0: as the client pleases
    assert pauses == [expected] and client.counts == {"calls": 2, "retries": 1, "blocks_ok": 1}


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_each_failure_may_say_how_long_to_wait(status: int):
    assert failures.of_status(status, "x", "1").pause_s == 1.0 and failures.of_status(status, "x", "").pause_s is None


def test_pauses_double_up_to_the_longest(pauses: list[float]):
    client = client_of(*[Answer(b"x", 503)] * 5, Answer(whole()), vlm_patience_s=600)
    run(client.read_block({}, "r", TEXT))
    assert pauses == [0.3, 0.6, 1.2, LONGEST_PAUSE_S, LONGEST_PAUSE_S]


def test_a_block_is_given_up_after_its_tries_while_the_server_answers_others(pauses: list[float]):
    client = client_of(*[Answer(b"broken", 500)] * 9)

    async def answers_since(moment: float) -> bool:
        assert moment <= time.monotonic()
        return True

    client.presence.answers_since = answers_since
    reply = run(client.read_block({}, "r", TEXT))
    assert reply.note == BlockNote("failed", "500: broken") and client.counts["calls"] == failures.TRIES
    assert client.counts == {"calls": failures.TRIES, "retries": failures.TRIES - 1, "blocks_failed": 1}
    assert client.presence.last_loss > 0


def test_another_server_is_asked_before_one_is_away(pauses: list[float]):
    both = ("http://a:1/v1", "http://b:1/v1")
    client = client_of(
        *[Answer(b"x", 503)] * 3, Answer(whole()), vlm_url=both[0], vlm_further_urls=both[1], vlm_patience_s=0.0
    )
    with pytest.raises(VlmUnavailable):
        run(client.read_block({}, "r", TEXT))
    assert [url for url, _, _ in client._session.asked] == [f"{url}/chat/completions" for url in both]


def test_a_server_without_probabilities_is_asked_without(pauses: list[float], caplog: pytest.LogCaptureFixture):
    refusal = Answer(b'{"message": "logprobs are not allowed"}', 400)
    client = client_of(refusal, Answer(whole()), Answer(whole()), Answer(b"too wide", 400), confidence=True)
    assert run(client.read_block({}, "r", TEXT)).text == TEXT_OF
    assert run(client.read_block({}, "r", TEXT)).text == TEXT_OF
    assert ["logprobs" in body for _, body, _ in client._session.asked] == [True, False, False]
    assert run(client.read_block({}, "r", TEXT)).note == BlockNote("refused", "too wide")
    assert client.counts == {"calls": 4, "blocks_ok": 2, "blocks_refused": 1} and pauses == []
    assert client.presence.last_answer > 0
    assert sum("gives no log-prob" in record.message for record in caplog.records) == 1


def test_no_block_is_lost_that_was_under_way_when_probabilities_were_refused(caplog: pytest.LogCaptureFixture):
    client = client_of(confidence=True)
    refusals = asyncio.Barrier(4)

    async def call(*_: object) -> Reply:
        if client._asked:
            await refusals.wait()
            raise BlockRefused("logprobs are not allowed")
        return Reply(TEXT_OF)

    async def page() -> list[Reply]:
        return await asyncio.gather(*(client.read_block({}, "r", TEXT) for _ in range(4)))

    client._call = call
    assert [reply.text for reply in run(page())] == [TEXT_OF] * 4
    assert sum("gives no log-prob" in record.message for record in caplog.records) == 1


@pytest.mark.parametrize(
    ("second", "text", "kind"),
    [
        (Answer(whole()), TEXT_OF, "ok"),
        (Answer(whole(reason="length")), TEXT_OF, "length"),
        (Answer(b"odd", 400), "Begins. round and round ", "repetition"),
    ],
)
def test_a_loop_is_asked_for_again_with_other_sampling(second: Answer, text: str, kind: str):
    client = client_of(Answer(whole(LOOP)), second)
    reply = run(client.read_block({"temperature": 0}, "r", TEXT))
    assert reply.text == text and client.counts[f"blocks_{kind}"] == 1 and client.counts["repetition_retries"] == 1
    assert reply.tokens == ((60, 8) if second.status == 200 else (30, 4)), "of both calls"
    (_, first, _), (_, again, _) = client._session.asked
    assert again == {**first, **OTHER_SAMPLING} and first["temperature"] == 0


def test_a_band_that_loops_is_not_asked_for_again():
    client = client_of(Answer(whole(LOOP)))
    assert run(client.read_block({}, "r", BAND)).note.kind == "repetition"
    assert client.counts == {"calls": 1, "blocks_repetition": 1}


@pytest.mark.parametrize(
    ("answer", "reads"),
    [(Answer(whole()), True), (Answer(b"{}"), False), (Answer(whole(), 500), False), (TimeoutError(), False)],
)
def test_a_tiny_image_tells_whether_the_server_reads(answer: Any, reads: bool):
    client = client_of(answer, vlm_model_name="named")
    (endpoint,) = client._endpoints.all
    endpoint.failures = 3
    assert run(client._reads_tiny_image()) is reads
    assert client._session.asked[0][1]["model"] == "named" and endpoint.in_work == 0
    assert (endpoint.failures == 0) is reads


def test_the_wait_for_a_place_is_no_wait_for_the_server(monkeypatch: pytest.MonkeyPatch):
    """Under load it may be longer than a call may take."""
    client = client_of(Answer(whole()), vlm_timeout_s=0.05)
    entered = client.limit.acquire

    async def late() -> None:
        await asyncio.sleep(0.2)
        await entered()

    monkeypatch.setattr(client.limit, "acquire", late)
    assert one(client).text == TEXT_OF
