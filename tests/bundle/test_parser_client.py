# SPDX-License-Identifier: Apache-2.0
"""The HTTP client of the demo and the self-test: the key, and what it says without one."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from bundle import parser_client
from tests.support.simulated_parser import SimulatedParser
from tool_errors import ParseError, UsageError

pytestmark = pytest.mark.server


@pytest.fixture
def url() -> Iterator[str]:
    """A simulated parser that asks for the key `k1`, as the real one answers."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            known = self.headers.get("Authorization") == "Bearer k1"
            body = {"result": {"layoutParsingResults": []}} if known else {"errorCode": 401, "errorMsg": "no key"}
            text = json.dumps(body).encode()
            self.send_response(200 if known else 401)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_the_key_is_sent(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "page.png").write_bytes(b"x")
    monkeypatch.setitem(parser_client.VALUES, "PARSER_API_KEY", "k1")
    assert parser_client.request(url, tmp_path / "page.png", 1, 60) == {"layoutParsingResults": []}


def test_without_a_key_the_answer_says_where_it_goes(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "page.png").write_bytes(b"x")
    monkeypatch.delitem(parser_client.VALUES, "PARSER_API_KEY", raising=False)
    with pytest.raises(UsageError, match=r"no key \(401\); put the key into PARSER_API_KEY"):
        parser_client.request(url, tmp_path / "page.png", 1, 60)


def test_a_failure_of_the_parser_is_not_the_callers_error(tmp_path: Path):
    (tmp_path / "page.png").write_bytes(b"x")
    parser = SimulatedParser()
    parser.always = 503
    try:
        with pytest.raises(ParseError, match=r"told to answer 503 \(503\)") as failed:
            parser_client.request(parser.url, tmp_path / "page.png", 1, 60)
    finally:
        parser.close()
    assert failed.value.exit_status == 1
