# SPDX-License-Identifier: Apache-2.0
"""What a client sees of a refusal: words for its case, in its form, after its body was heard."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.exceptions import HTTPException
from starlette.types import Message

from docparser import errors
from docparser.errors import RequestTimeout
from docparser.http import answers, bodies
from docparser.http.errors import extras, family_of, status_of
from docparser.settings import Settings
from tests.parser.gate import ENTRY, KEY, ask, gated
from tool_errors import SETTINGS_PLACE

JOBS, CHAT = "/api/v2/ocr/jobs", "/v1/chat/completions"


def basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


class TestWords:
    @pytest.mark.parametrize("user", ["", "anybody", "a:b"])
    def test_a_key_may_be_the_password_of_an_address(self, user):
        """As http://anybody:KEY@host gives it."""
        entry, settings = basic(f"{user.partition(':')[0]}:{KEY}"), Settings(api_keys=ENTRY)
        assert ask(gated(settings), "POST", "/layout-parsing", Authorization=entry).status_code == 200

    @pytest.mark.parametrize(
        ("headers", "words"),
        [
            ({}, "A key is needed, and none was sent: send `Authorization: Bearer KEY`"),
            ({"Authorization": ""}, "The header Authorization has no key in a form"),
            ({"Authorization": KEY}, "The header Authorization has no key in a form"),
            ({"Authorization": basic(KEY)}, "The header Authorization has no key in a form"),
            ({"Authorization": basic(f"{KEY}:")}, "The header Authorization has no key in a form"),
            ({"Authorization": "Basic *"}, "The header Authorization has no key in a form"),
            ({"Authorization": "Basic /w=="}, "The header Authorization has no key in a form"),
            ({"Authorization": "Bearer other"}, "This key is not known here; ask your operator"),
            ({"Authorization": basic("me:other")}, "This key is not known here; ask your operator"),
            ({"X-Api-Key": "other"}, "This key is not known here; ask your operator"),
        ],
    )
    def test_no_key_another_form_and_an_unknown_key(self, headers, words):
        answer = ask(gated(Settings(api_keys=ENTRY)), "POST", "/parse", **headers)
        assert answer.status_code == 401 and answer.json()["errorMsg"].startswith(words)
        assert KEY not in answer.text

    @pytest.mark.parametrize("path", [JOBS, f"{JOBS}/1/events", f"{JOBS}/batch/1", "/capacity"])
    def test_job_paths_say_it_as_job_clients_read_it(self, path):
        said = ask(gated(Settings(api_keys=ENTRY)), "GET", path).json()
        assert said["code"] == said["errorCode"] == 401 and said["msg"] == said["errorMsg"]

    def test_paths_of_the_openai_api_too(self):
        said = ask(gated(Settings(api_keys=ENTRY)), "GET", "/v1/models").json()
        assert said["error"] == {
            "message": said["errorMsg"],
            "type": "invalid_request_error",
            "param": None,
            "code": "invalid_api_key",
        }


@pytest.mark.parametrize("path", ["/api/v2/nothing", JOBS, f"{JOBS}/1/2/3"])
def test_errors_of_job_paths_without_a_route(service, path):
    answer = service.client.put(path)
    said = answer.json()
    assert answer.status_code == said["code"] == said["errorCode"] in (404, 405) and said["msg"] == said["errorMsg"]


PIECE = 1 << 16


class TestBody:
    """Messages of a server to the gate: the body comes in pieces, and an answer before its end would be lost."""

    @staticmethod
    def send(
        settings: Settings,
        pieces: int,
        path: str = JOBS,
        last: Callable[[], Awaitable[None]] | None = None,
        headers: dict[str, str] | None = None,
    ) -> tuple[list[Message], int]:
        """Messages of the answer, and how many pieces were taken before it. ``last``: awaited after the pieces, which
        are then not all of the body."""
        taken, heard, answer = 0, 0, []

        async def receive() -> dict:
            nonlocal taken
            if taken == pieces and last is not None:
                await last()
                return {"type": "http.disconnect"}
            assert taken < pieces, "nothing comes after the body"
            taken += 1
            more = taken < pieces or last is not None
            return {"type": "http.request", "body": bytes(PIECE), "more_body": more}

        async def send(message: Message) -> None:
            nonlocal heard
            heard = heard or taken
            answer.append(message)

        names = [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()]
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": "POST",
            "path": path,
            "headers": [(b"host", b"127.0.0.1"), *names],
            "client": ("127.0.0.1", 1),
        }
        asyncio.run(gated(settings)(scope, receive, send))
        return answer, heard

    @pytest.mark.parametrize("path", [JOBS, "/layout-parsing", CHAT])
    def test_it_is_heard_before_a_401(self, path):
        answer, heard = self.send(Settings(api_keys=ENTRY), 20, path)
        assert answer[0]["status"] == 401 and heard == 20

    @pytest.mark.parametrize("length", [{}, {"Content-Length": str(40 * PIECE)}], ids=["chunks", "announced"])
    def test_it_is_heard_before_a_413_up_to_twice_the_limit(self, length):
        settings = Settings(max_body_mib=1)
        answer, heard = self.send(settings, 30, headers=length)
        assert answer[0]["status"] == 413 and heard == 30, "all of it"
        answer, heard = self.send(settings, 100, headers=length)
        assert answer[0]["status"] == 413 and heard == 33, "2 MiB, and the piece beyond them"

    @pytest.mark.parametrize(("path", "field"), [("/layout-parsing", "errorMsg"), (JOBS, "msg")])
    def test_a_setting_that_is_named_is_named_with_its_place(self, monkeypatch, path, field):
        monkeypatch.setenv(SETTINGS_PLACE, ".env beside compose.yaml")
        answer, _ = self.send(Settings(max_body_mib=1), 30, path)
        words = json.loads(answer[1]["body"])[field]
        assert words.endswith("PARSER_MAX_BODY_MIB is set in .env beside compose.yaml.")

    def test_a_429_after_the_last_piece_waits_for_nothing(self):
        """Two of three pieces fit into what one client may have."""
        settings = Settings(max_body_mib=1, max_bodies_mib=1)
        answer, heard = self.send(settings, 16, "/layout-parsing")
        assert answer[0]["status"] == 200 and heard == 16
        body = {"Content-Length": str(PIECE)}
        asked = self.send(Settings(api_keys=f"{ENTRY} bytes=1/day"), 1, headers={"X-Api-Key": KEY, **body})
        assert asked[0][0]["status"] == 429 and asked[1] == 1

    def test_who_asks_before_it_sends_is_answered_at_once(self):
        answer, heard = self.send(Settings(api_keys=ENTRY), 20, headers={"Expect": "100-continue"})
        assert answer[0]["status"] == 401 and heard == 0

    def test_who_falls_silent_is_answered(self, monkeypatch):
        monkeypatch.setattr(bodies, "SILENCE_S", 0.05)
        answer, heard = self.send(Settings(api_keys=ENTRY), 2, last=lambda: asyncio.sleep(3600))
        assert answer[0]["status"] == 401 and heard == 2

    def test_who_leaves_gets_nothing(self):
        answer, _ = self.send(Settings(api_keys=ENTRY), 2, last=lambda: asyncio.sleep(0))
        assert answer == []

    def test_the_answer_says_why(self):
        answer, _ = self.send(Settings(api_keys=ENTRY), 2)
        assert json.loads(answer[1]["body"])["msg"].startswith("A key is needed")


EVERYWHERE = {
    403: "LinkRefused NoOwner",
    404: "FileNotFound JobNotFound ModelNotFound",
    413: "BoundExceeded DocumentTooLarge DocumentTooSlow StepTooSlow",
    429: "QueueFull QuotaExceeded TooBusy",
    500: "Abandoned InternalError StorageDamaged",
    503: "Incompatible NotReady OutcomeUnknown SpoolFull StorageAway StorageUnavailable VlmUnavailable",
    504: "PageTimeout RequestTimeout",
    507: "DataDirFull",
    400: "BodyTooComplex",
}
# On /layout-parsing, of jobs, of the OpenAI API, of Mistral's, of docling-serve's.
FAMILIES = ("/layout-parsing", JOBS, CHAT, "/v1/ocr", "/v1/convert/file")
BY_FAMILY = {
    **dict.fromkeys(("InvalidRequest", "InvalidDocument"), (422, 400, 400, 400, 422)),
    **dict.fromkeys(("UnreadableText", "WorkerLost", "KeyReused"), (422, 422, 400, 400, 422)),
    "InvalidJob": (400, 400, 400, 400, 422),
    "NoResultYet": (409, 409, 409, 409, 404),
}
AGAIN_S = {"QueueFull": 30, "TooBusy": 10, "QuotaExceeded": 60, "DataDirFull": 60}
AGAIN_S |= dict.fromkeys(("StorageUnavailable", "StorageAway", "Incompatible", "OutcomeUnknown"), 10)


def test_each_error_has_its_status_and_says_when_to_come_again():
    expected = {name: (status,) * 5 for status, names in EVERYWHERE.items() for name in names.split()} | BY_FAMILY
    bases = ("ParserError", "PageFailed")  # nobody raises these
    known = {name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and name not in bases}
    assert {name: tuple(status_of(kind, path) for path in FAMILIES) for name, kind in known.items()} == expected
    for name, kind in known.items():
        status = expected[name][0]
        headers, _ = extras(kind("why"), status)
        seconds = AGAIN_S.get(name, 5 if status == 503 else None)
        assert headers == (None if seconds is None else {"Retry-After": str(seconds)}), name


@pytest.mark.parametrize(
    ("status", "message", "kind", "param", "code"),
    [
        (400, "messages.0.role: wrong", "invalid_request_error", "messages.0.role", None),
        (404, "model: no such", "invalid_request_error", "model", "model_not_found"),
        (404, "There is no path", "invalid_request_error", None, None),
        (429, "full", "rate_limit_exceeded", None, "rate_limit_exceeded"),
        (500, "fault", "server_error", None, None),
        (503, "away", "server_error", None, None),
    ],
)
def test_errors_of_the_openai_api_and_mistrals(status, message, kind, param, code):
    said = {"message": message, "type": kind, "param": param, "code": code}
    assert family_of(CHAT).fields(status, message) == {"error": said}
    assert family_of("/v1/files").fields(status, message) == {"object": "error", **said}


@pytest.mark.parametrize(("leaves", "error"), [(True, HTTPException), (False, RequestTimeout)])
def test_work_that_nobody_waits_for_or_that_takes_too_long_is_cancelled(monkeypatch, leaves, error):
    monkeypatch.setattr(answers, "CHECK_S", 0.01)
    ended = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    async def left() -> bool:
        return leaves

    state = SimpleNamespace(settings=Settings(request_timeout_s=3600.0 if leaves else 0.05))
    request: Any = SimpleNamespace(app=SimpleNamespace(state=state), is_disconnected=left)

    async def wait() -> None:
        try:
            await answers.wait_for(request, work())
        finally:
            await asyncio.sleep(0)

    with pytest.raises(error, match="499" if leaves else "PARSER_REQUEST_TIMEOUT_S"):
        asyncio.run(wait())
    assert ended == ["cancelled"]
