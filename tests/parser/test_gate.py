# SPDX-License-Identifier: Apache-2.0
"""Keys, the queue's end and the request's id: what a request meets before its body is read. No workers are needed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from unittest import mock

import httpx
import pytest
import uvicorn
from fastapi import Request
from prometheus_client import generate_latest

from docparser import traces
from docparser.clients.key_ring import KeyRing
from docparser.clients.keys import digest
from docparser.errors import NotReady
from docparser.http.admission import cors, shown_path
from docparser.http.gate import TracedRequests, client_of, holder_of
from docparser.http.openapi import HEADERS
from docparser.logs import request_id
from docparser.settings import Settings
from tests.parser.gate import ENTRY, KEY, ask, client, gated
from tests.support.wait import WAIT_S


class TestKeys:
    @pytest.mark.parametrize(
        "headers",
        [
            {"Authorization": f"Bearer {KEY}"},
            {"authorization": f"bearer {KEY}"},
            {"Authorization": f"token {KEY}"},
            {"X-Api-Key": KEY},
            {"X-Api-Key": KEY, "Authorization": "Basic abc"},
        ],
    )
    def test_all_forms_are_accepted(self, headers):
        response = ask(gated(Settings(api_keys=ENTRY)), "POST", "/layout-parsing", **headers)
        assert response.status_code == 200
        assert response.json() == digest(KEY)[:16], "the key's id"

    @pytest.mark.parametrize(
        "headers",
        [{}, {"Authorization": f"Bearer {KEY}x"}, {"Authorization": KEY}, {"X-Api-Key": ""}, {"X-Api-Key": ENTRY}],
    )
    def test_anything_else_is_401(self, headers):
        response = ask(gated(Settings(api_keys=ENTRY)), "POST", "/layout-parsing", **headers)
        assert response.status_code == response.json()["errorCode"] == 401
        assert response.headers["WWW-Authenticate"].startswith("Bearer") and KEY not in response.text

    def test_bytes_that_were_announced_and_never_came_are_not_kept(self, tmp_path):
        gate = gated(Settings(api_keys=f"{ENTRY} bytes=100/day", data_dir=tmp_path))
        announced = {"X-Api-Key": KEY, "Content-Length": "80"}
        assert [ask(gate, "POST", "/layout-parsing", **announced).status_code for _ in range(2)] == [200, 200]

    def test_a_body_without_a_length_counts_once(self, tmp_path):
        async def body():
            for _ in range(4):
                yield b"x" * 10

        async def send() -> list[int]:
            async with client(gate) as http:
                answers = [
                    await http.post("/layout-parsing", content=body(), headers={"X-Api-Key": KEY}) for _ in "abc"
                ]
            return [answer.status_code for answer in answers]

        gate = gated(Settings(api_keys=f"{ENTRY} bytes=100/day", data_dir=tmp_path))
        assert asyncio.run(send()) == [200, 200, 200], "the last one begins at 80"

    @pytest.mark.parametrize(
        ("method", "path", "headers", "quota"),
        [
            ("POST", "/api/v2/ocr/jobs", {}, "jobs/day"),
            ("POST", "/v1/convert/file/async", {}, "jobs/day"),
            ("POST", "/api/v2/ocr/jobs", {"Idempotency-Key": "a"}, None),
            ("POST", "/parse", {}, "pages/day"),
            ("POST", "/v1/ocr", {}, "pages/day"),
            ("POST", "/api/v2/ocr/jobs/1/retry", {}, "pages/day"),
            ("POST", "/restructure-pages", {}, None),
            ("GET", "/parse", {}, None),
            ("DELETE", "/api/v2/ocr/jobs/1", {}, None),
        ],
    )
    def test_quotas_that_are_used_up_refuse_what_would_use_them(self, tmp_path, method, path, headers, quota):
        """Before a body is read. A repeated submission makes no job."""
        gate = gated(Settings(api_keys=f"{ENTRY} name=me pages=1/day jobs=1/day", data_dir=tmp_path))
        allowance = gate._admission._allowance
        for resource in ("pages", "jobs"):
            allowance.spend(digest(KEY)[:16], resource)
        answer = ask(gate, method, path, **{"X-Api-Key": KEY, **headers})
        assert answer.status_code == (200 if quota is None else 429)
        assert quota is None or answer.json()["quota"] == {"name": quota, "limit": 1, "used": 1}

    def test_probes_need_none(self):
        gate = gated(Settings(api_keys=ENTRY))
        pages = ("/", "/docs", "/docs/swagger-ui.css", "/openapi.json")
        for path in ("/health", "/health/ready", "/layout-parsing", *pages):
            assert ask(gate, "GET", path).status_code == ask(gate, "HEAD", path).status_code == 200
        for path in ("/layout-parsing", "/docs", "/api/v2/ocr/results/1/2/result.jsonl"):
            assert ask(gate, "POST", path).status_code == 401
        for path in ("/metrics", "/usage", "/capacity", "/api/v2/ocr/jobs"):
            assert ask(gate, "GET", path).status_code == 401

    def test_keys_in_a_file(self, tmp_path):
        path = tmp_path / "keys"
        path.write_text(f"# who may ask\n\n{ENTRY} the billing department\nsha256:{'0' * 64}\n")
        gate = gated(Settings(api_keys_file=path))
        assert ask(gate, "POST", "/layout-parsing", **{"X-Api-Key": KEY}).status_code == 200

    @pytest.mark.parametrize("entry", [KEY, "sha256:abc", f"{ENTRY},plain"])
    def test_a_key_that_is_not_hashed_is_refused_and_not_repeated(self, entry):
        with pytest.raises(NotReady, match="PARSER_API_KEYS") as caught:
            KeyRing.of(Settings(api_keys=entry))
        assert KEY not in str(caught.value)

    def test_a_file_that_is_not_there(self, tmp_path):
        with pytest.raises(NotReady, match="PARSER_API_KEYS_FILE"):
            KeyRing.of(Settings(api_keys_file=tmp_path / "none"))


class TestAddresses:
    @pytest.mark.parametrize("address", ["127.0.0.1", "localhost", "::1", "127.0.0.2"])
    def test_on_loopback_no_key_is_needed(self, address):
        assert not KeyRing.of(Settings(bind=address))

    @pytest.mark.parametrize("address", ["0.0.0.0", "::", "10.0.0.5", "parser.example"])
    def test_elsewhere_the_service_does_not_start_without(self, address):
        with pytest.raises(NotReady, match="PARSER_AUTH=off"):
            KeyRing.of(Settings(bind=address))
        assert KeyRing.of(Settings(bind=address, api_keys=ENTRY))
        assert not KeyRing.of(Settings(bind=address, auth="off"))

    @pytest.mark.parametrize("url", ["https://ocr.example.org/base", "http://10.0.0.5:8080", "https://:443"])
    def test_behind_a_proxy_the_public_address_counts(self, url):
        """The service itself listens on loopback."""
        with pytest.raises(NotReady, match="PARSER_AUTH=off"):
            KeyRing.of(Settings(public_url=url))
        assert KeyRing.of(Settings(public_url=url, api_keys=ENTRY))
        assert not KeyRing.of(Settings(public_url=url, auth="off"))

    def test_pages_of_every_origin_need_keys_on_loopback_too(self):
        with pytest.raises(NotReady, match="every web page, because PARSER_ALLOWED_ORIGINS has"):
            KeyRing.of(Settings(allowed_origins="*"))
        assert KeyRing.of(Settings(allowed_origins="*", api_keys=ENTRY))
        assert not KeyRing.of(Settings(allowed_origins="https://app.example.org"))

    def test_a_public_address_on_loopback_opens_nothing(self):
        assert not KeyRing.of(Settings(public_url="http://localhost:8080/parser"))

    def test_in_a_container_the_published_address_counts(self):
        assert not KeyRing.of(Settings(bind="0.0.0.0", published_address="127.0.0.1"))
        with pytest.raises(NotReady, match="192.168.1.5"):
            KeyRing.of(Settings(bind="0.0.0.0", published_address="192.168.1.5"))


def held():
    """An app whose requests wait; each that has entered, and what lets them go on."""
    entered, release = asyncio.Semaphore(0), asyncio.Event()

    async def slow(scope, receive, send):
        entered.release()
        await release.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    return slow, entered, release


class TestQueue:
    @pytest.mark.parametrize("path", ["/layout-parsing", "/parse", "/v1/chat/completions"])
    def test_the_request_beyond_the_last_place_is_429(self, path):
        async def run():
            slow, entered, release = held()
            gate = gated(Settings(max_requests=4), slow)
            async with client(gate) as http:
                first = [asyncio.create_task(http.post(path, json={})) for _ in range(2)]
                await entered.acquire(), await entered.acquire()
                refused = await http.post(path, json={})
                assert refused.status_code == refused.json()["errorCode"] == 429
                assert "PARSER_MAX_REQUESTS" in refused.json()["errorMsg"] and int(refused.headers["Retry-After"]) > 0
                other = asyncio.create_task(http.get("/health"))
                release.set()
                assert [(await one).status_code for one in [*first, other]] == [200] * 3
                assert (await http.post(path, json={})).status_code == 200, "places are given back"

        asyncio.run(run())

    @pytest.mark.parametrize(("other", "status"), [(KEY, 429), ("another-key", 200)])
    def test_with_keys_half_of_the_places_is_of_a_key_and_not_of_an_address(self, other, status):
        async def run():
            slow, entered, release = held()
            entries = f"{ENTRY},sha256:{digest('another-key')}"
            gate = gated(Settings(max_requests=2, api_keys=entries), slow)
            async with client(gate) as http:
                first = asyncio.create_task(http.post("/parse", headers={"X-Api-Key": KEY}))
                await entered.acquire()
                second = asyncio.create_task(http.post("/parse", headers={"X-Api-Key": other}))
                await (second if status == 429 else entered.acquire())
                release.set()
                assert ((await first).status_code, (await second).status_code) == (200, status)

        asyncio.run(run())

    def test_bodies_count_together(self):
        async def run():
            slow, entered, release = held()
            gate = gated(Settings(max_bodies_mib=1), slow)
            async with client(gate) as http:
                large = asyncio.create_task(http.post("/layout-parsing", content=bytes(900_000)))
                await entered.acquire()
                refused = await http.post("/layout-parsing", content=bytes(900_000))
                assert refused.status_code == 429 and "PARSER_MAX_BODIES_MIB" in refused.json()["errorMsg"]
                release.set()
                assert (await large).status_code == 200

        asyncio.run(run())


class TestRequestId:
    def test_the_clients_comes_back(self):
        assert ask(gated(Settings()), "GET", "/health", **{"X-Request-Id": "a-1"}).headers["X-Request-Id"] == "a-1"

    @pytest.mark.parametrize("sent", ["", "two words", "a" * 65, '"}{'])
    def test_what_is_none_is_replaced(self, sent):
        made = ask(gated(Settings()), "GET", "/health", **{"X-Request-Id": sent}).headers["X-Request-Id"]
        assert made != sent and len(made) == 32


class TestUnexpectedErrors:
    """Starlette answers them in front of all middleware: without an id, and too late for logs and metrics."""

    def test_they_are_answered_and_counted_with_id_and_status(self, caplog: pytest.LogCaptureFixture):
        ids: list[tuple[str, str]] = []

        class Noting(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                ids.append((record.name, request_id.get()))

        async def broken(scope, receive, send):
            scope["state"]["log_id"] = "of-the-body"
            raise KeyError("secret")

        gate, noting = gated(Settings(), broken), Noting()
        caplog.set_level(logging.INFO)
        logging.getLogger().addHandler(noting)
        try:
            answer = ask(gate, "POST", "/parse", **{"X-Request-Id": "a-1"})
        finally:
            logging.getLogger().removeHandler(noting)
        assert answer.status_code == 500 and answer.json()["logId"] == "of-the-body"
        assert "secret" not in answer.text and "KeyError: 'secret'" in caplog.text
        assert answer.headers["X-Request-Id"] == "a-1" and answer.headers["X-Content-Type-Options"] == "nosniff"
        assert "POST /parse 500" in caplog.text and ("docparser.http.errors", "a-1") in ids
        page = generate_latest(gate._metrics.registry).decode()
        assert 'docparser_requests_total{code="500",path="/parse"} 1.0' in page
        assert 'docparser_client_requests_total{client="anonymous",code="500"} 1.0' in page and 'code="499"' not in page

    @pytest.mark.parametrize(("path", "field"), [("/v1/chat/completions", "error"), ("/api/v2/ocr/jobs", "msg")])
    def test_each_api_has_its_own_fields(self, path: str, field: str):
        async def broken(scope, receive, send):
            raise KeyError

        answer = ask(gated(Settings(), broken), "POST", path)
        assert answer.status_code == 500 and field in answer.json()

    def test_a_fault_of_the_admission_is_one_too(self, monkeypatch: pytest.MonkeyPatch):
        gate = gated(Settings())

        def broken(*_: object) -> None:
            raise OSError("disk")

        monkeypatch.setattr(gate._admission._allowance, "enter", broken)
        answer = ask(gate, "GET", "/capacity")
        assert answer.status_code == 500 and answer.headers["X-Request-Id"]

    def test_an_answer_that_has_begun_is_cut(self):
        async def half(scope, receive, send):
            await send({"type": "http.response.start", "status": 200, "headers": []})
            raise KeyError("late")

        gate = gated(Settings(), half)
        with pytest.raises(KeyError, match="late"):
            ask(gate, "GET", "/capacity")
        page = generate_latest(gate._metrics.registry).decode()
        assert 'docparser_requests_total{code="200",path="other"} 1.0' in page

    def test_their_spans_are_errors(self, monkeypatch: pytest.MonkeyPatch):
        span = mock.MagicMock()
        monkeypatch.setattr(traces, "span", lambda *_, **__: contextlib.nullcontext(span))

        async def broken(scope, receive, send):
            raise KeyError

        ask(TracedRequests(gated(Settings(), broken)), "GET", "/capacity")
        span.set_status.assert_called_once()
        span.reset_mock()
        ask(TracedRequests(gated(Settings())), "GET", "/capacity")
        span.set_status.assert_not_called()


class TestStopping:
    @pytest.mark.server
    def test_what_does_not_end_in_time_is_asked_to_come_again(self):
        """uvicorn cancels what is still at work; by itself it would answer 500."""

        async def run():
            entered = asyncio.Event()

            async def endless(scope, receive, send):
                entered.set()
                await asyncio.Event().wait()

            config = uvicorn.Config(
                gated(Settings(), endless), port=0, log_config=None, lifespan="off", timeout_graceful_shutdown=1
            )
            server = uvicorn.Server(config)
            serving = asyncio.create_task(server.serve())
            while not server.started:
                await asyncio.sleep(0.01)
            port = server.servers[0].sockets[0].getsockname()[1]
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=WAIT_S) as http:
                waiting = asyncio.create_task(http.post("/layout-parsing", content=b"{}"))
                await entered.wait()
                server.should_exit = True
                answer = await waiting
            await serving
            assert answer.status_code == 503 and answer.headers["Retry-After"] == "5"
            assert answer.json()["errorMsg"] == "The service is stopping; send the request again."

        asyncio.run(asyncio.wait_for(run(), WAIT_S))


@pytest.mark.parametrize(
    ("key", "bulk", "address", "token", "flow"),
    [
        ("id", False, "10.0.0.1", "a", "id"),
        ("id", True, "10.0.0.1", "a", "id bulk"),
        ("", False, "10.0.0.1", "a", "10.0.0.1 ca978112ca1b"),
        ("", False, "10.0.0.1", "b", "10.0.0.1 3e23e8160039"),
        ("", False, "2001:db8:1:2:3::1", "a", "2001:db8:1:2::/64 ca978112ca1b"),
    ],
)
def test_who_takes_turns_and_who_holds_a_share(key, bulk, address, token, flow):
    """A token, whose SHA-256 begins so, can be made up anew for each request: it gives turns and no share."""
    headers = [(b"authorization", token.encode())]
    scope = {"type": "http", "headers": headers, "client": (address, 1), "state": {"key_id": key, "bulk": bulk}}
    assert client_of(Request(scope)) == flow
    assert holder_of(scope) == (key or flow.partition(" ")[0])


def test_what_pages_of_an_allowed_origin_may_send_and_read():
    said = cors(("https://app.example",))
    assert set(said["allow_methods"]) == {"GET", "POST", "DELETE"}
    assert said["allow_headers"] == ("*",), "openai's package sends X-Stainless-..., a follower Last-Event-ID"
    exposed = {"Retry-After", "Content-Disposition", "Document-Pages", "Document-Partial", "Document-Notes"}
    assert exposed <= set(said["expose_headers"]) <= HEADERS.keys()


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/api/v2/ocr/results/1/123-abc/result.jsonl", "/api/v2/ocr/results/1/…/result.jsonl"),
        ("/api/v2/ocr/results/1/123-abc", "/api/v2/ocr/results/1/…"),
        ("/api/v2/ocr/jobs/1/retry", "/api/v2/ocr/jobs/1/retry"),
        ("/" + "a" * 300, "/" + "a" * 199),
    ],
)
def test_paths_in_logs_open_nothing_and_are_short(path, shown):
    assert shown_path(path) == shown


def test_probes_are_not_in_the_log(caplog):
    with caplog.at_level("INFO", "docparser.access"):
        for path in ("/health", "/health/ready", "/metrics", "/capacity"):
            ask(gated(Settings()), "GET", path)
    assert [record.args[:3] for record in caplog.records if record.name == "docparser.access"] == [
        ("GET", "/capacity", 200)
    ]
