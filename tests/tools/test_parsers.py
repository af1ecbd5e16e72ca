# SPDX-License-Identifier: Apache-2.0
"""What parse_folder.py makes of each answer of a parser, how long it waits for one, and its command line."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from batch import arguments, parsers
from batch.pages import Page
from batch.parsers import AttemptFailed, Parser, Unavailable
from bundle import parser_client
from tool_errors import ParseError, ServiceError, UsageError

PAGE = Page(b"pixels", 1)
Answer = Callable[[httpx.Request], httpx.Response]


def parser(answer: Answer, monkeypatch: pytest.MonkeyPatch, key: str = "") -> Parser:
    monkeypatch.setitem(parser_client.VALUES, "PARSER_API_KEY", key)  # of the environment or .env
    made = Parser("http://a:8080/layout-parsing/", 600)
    old, made._client = made._client, httpx.AsyncClient(transport=httpx.MockTransport(answer))
    made._client.headers = old.headers
    return made


def test_a_parser_is_asked_for_one_page(monkeypatch: pytest.MonkeyPatch):
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(200, json={"result": {"pages": 1}})

    made = parser(answer, monkeypatch, "secret")
    made.last_answer = 0
    assert asyncio.run(made.parse(PAGE, {"useChartRecognition": True})) == {"pages": 1} and made.last_answer
    assert str(asked[0].url) == "http://a:8080/layout-parsing" and asked[0].headers["Authorization"] == "Bearer secret"
    assert b'"useChartRecognition":true' in asked[0].content.replace(b" ", b"")


@pytest.mark.parametrize(
    "url", ["a:8080", "ftp://a", "http://", "http://127.0.0.1:80a0", "http://a:80800", "http://a\n"]
)
def test_what_is_no_url_is_refused(url: str):
    with pytest.raises(UsageError, match=f"--server {url}: expected a URL"):
        Parser(url, 600)


@pytest.mark.parametrize(("key", "sign"), [("schlüssel", "ü"), ("two\nlines", "\\n")])
def test_a_key_that_no_header_holds_is_refused(monkeypatch: pytest.MonkeyPatch, key: str, sign: str):
    monkeypatch.setitem(parser_client.VALUES, "PARSER_API_KEY", key)
    with pytest.raises(UsageError, match=re.escape(f"PARSER_API_KEY holds '{sign}'")):
        Parser("http://a", 600)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        *((status, Unavailable) for status in (429, 502, 503)),
        *((status, UsageError) for status in (401, 403, 404, 405, 421)),
        *((status, AttemptFailed) for status in (408, 500, 501, 504)),
        *((status, ParseError) for status in (400, 413, 422)),
    ],
)
def test_a_status_says_whether_the_page_is_sent_again(monkeypatch: pytest.MonkeyPatch, status: int, kind: type):
    made = parser(lambda _: httpx.Response(status, headers={"Retry-After": "7"}, json={}), monkeypatch)
    with pytest.raises(kind) as told:
        asyncio.run(made.parse(PAGE, {}))
    if isinstance(told.value, Unavailable):
        # One that is just full has not refused the page.
        assert (told.value.refused, told.value.pause) == (status != 429, 7)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (httpx.ConnectError("refused"), Unavailable),
        (httpx.ConnectTimeout("late"), Unavailable),
        (httpx.PoolTimeout("late"), Unavailable),
        (httpx.ReadTimeout("late"), AttemptFailed),
        (httpx.RemoteProtocolError("broke off"), AttemptFailed),
        (b"<html>", AttemptFailed),
        (b"[]", AttemptFailed),
        (b"{}", AttemptFailed),
    ],
)
def test_what_is_no_answer(monkeypatch: pytest.MonkeyPatch, error: Exception | bytes, kind: type):
    def answer(_: httpx.Request) -> httpx.Response:
        if isinstance(error, Exception):
            raise error
        return httpx.Response(200, content=error)

    made = parser(answer, monkeypatch)
    made.last_answer = 0
    with pytest.raises(kind):
        asyncio.run(made.parse(PAGE, {}))


@pytest.mark.parametrize(("text", "pause"), [("5", 5), ("100000", parsers.LONGEST_PAUSE_S), ("soon", None), ("", None)])
def test_the_pause_that_a_parser_asks_for(text: str, pause: float | None):
    assert parsers.retry_after(httpx.Response(503, headers={"Retry-After": text})) == pause


@pytest.mark.parametrize(("ready_at", "given_up"), [(3, False), (99, True)])
def test_a_parser_is_waited_for_with_growing_pauses(monkeypatch: pytest.MonkeyPatch, ready_at: int, given_up: bool):
    """As long as the patience since its last page."""
    now, looks = [1000.0], [0]

    def answer(_: httpx.Request) -> httpx.Response:
        looks[0] += 1
        return httpx.Response(200 if looks[0] >= ready_at else 503)

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        now[0] += seconds

    pauses: list[float] = []
    made = parser(answer, monkeypatch)
    made.last_answer = 995
    monkeypatch.setattr(parsers.asyncio, "sleep", sleep)
    monkeypatch.setattr(parsers.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(parsers, "FIRST_PAUSE_S", 1)
    monkeypatch.setattr(parsers, "LONGEST_PAUSE_S", 4)
    waiting = made.wait(Unavailable("full", pause=2), 20)
    if given_up:
        with pytest.raises(ServiceError, match=r"given up after 20 s \(--patience\): http://a:8080"):
            asyncio.run(waiting)
        assert pauses == [2, 2, 4, 4, 4]
    else:
        asyncio.run(waiting)
        assert pauses == [2, 2, 4]


def test_the_command_line_and_its_defaults(monkeypatch: pytest.MonkeyPatch):
    def parsed(words: str) -> dict[str, object]:
        monkeypatch.setattr(sys, "argv", ["parse_folder.py", *words.split()])
        return vars(arguments.parse())

    plain = {"inputs": ["in"], "out": Path("out"), "server": [], "vlm": [], "concurrency": 2}
    plain |= {"formats": ("md", "json"), "options": {}, "retry_failed": False, "timeout": 600, "patience": 600}
    assert parsed("in --out out") == plain
    words = (
        "--server http://a --server http://b --vlm http://c/v1 --concurrency 1 --formats docx,md,docx, --retry-failed"
    )
    assert parsed(f"in in2 --out out {words} --timeout 1.5 --patience 0.5") == plain | {
        **{"inputs": ["in", "in2"], "server": ["http://a", "http://b"], "vlm": ["http://c/v1"], "concurrency": 1},
        **{"formats": ("docx", "md"), "retry_failed": True, "timeout": 1.5, "patience": 0.5},
    }
    for wrong in ("--concurrency 0", "--formats ,", "--formats md,epub", "--options [1]", '--options {"fileType":1}'):
        with pytest.raises(SystemExit):
            parsed(f"in --out out {wrong}")
