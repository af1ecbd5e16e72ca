# SPDX-License-Identifier: Apache-2.0
"""Documents by URL: only from listed hosts, and never from inside the network, whatever names and redirects say."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from docparser.documents.intake import UrlSource
from docparser.errors import DocumentTooLarge, InvalidDocument, InvalidRequest
from docparser.outbound import GuardedResolver, is_public, public_or_in
from docparser.settings import Settings


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.9.9.9",
        "0.0.0.0",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "198.18.0.1",
        "::1",
        "::",
        "fe80::1",
        "fe80::1%eth0",
        "fc00::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "2002:7f00:1::",
        "64:ff9b::7f00:1",
        "2001:db8::1",
        "2001:0:808:808::f7f7:f7f7",  # Teredo
        "fec0::1",  # site-local
        "::7f00:1",  # IPv4-compatible
        "::808:808",
        "64:ff9b:1::a00:1",  # local NAT64
        "::ffff:0:127.0.0.1",  # SIIT
        "3fff::1",  # documentation
        "5f00::1",  # segment routing
    ],
)
def test_addresses_that_are_not_public(address):
    assert not is_public(address)


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
)
def test_addresses_that_are(address):
    assert is_public(address)


def test_networks_of_the_operator_are_allowed_besides():
    allowed = public_or_in(["10.2.0.0/16", "::1/128"])
    assert [allowed(address) for address in ("10.2.3.4", "::1", "8.8.8.8")] == [True] * 3
    assert not any(allowed(address) for address in ("10.3.0.1", "127.0.0.1", "::ffff:127.0.0.1", "fe80::1%eth0"))


class Site:
    """A web site on the loopback interface; ``answers``: path -> (status, headers, body)."""

    def __init__(self):
        self.answers: dict[str, tuple[int, dict[str, str], Iterable[bytes]]] = {}
        self.asked: list[str] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                site.asked.append(self.path)
                status, headers, body = site.answers[self.path]
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                for part in body:
                    try:
                        self.wfile.write(part)
                        self.wfile.flush()
                    except OSError:
                        return

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()


@pytest.fixture
def site():
    running = Site()
    yield running
    running.server.shutdown()
    running.server.server_close()


def fetch(url: str, hosts: str, allowed=lambda address: True, **settings) -> bytes:
    async def run():
        source = UrlSource(Settings(url_hosts=hosts, **settings), allowed)
        found = bytearray()

        async def write(piece: bytes) -> None:
            found.extend(piece)

        try:
            await source.fetch(url, write)
            return bytes(found)
        finally:
            await source.close()

    return asyncio.run(run())


def test_it_is_off_unless_hosts_are_listed():
    with pytest.raises(InvalidRequest, match="PARSER_URL_HOSTS"):
        fetch("https://example.com/a.pdf", "")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("ftp://example.com/a", "http or https"),
        ("file:///etc/passwd", "http or https"),
        ("http://user:word@example.com/", "without user"),
        ("http://example.com:99/", "PARSER_URL_HOSTS"),
        ("http://example.com.evil.net/", "PARSER_URL_HOSTS"),
        ("http://evilexample.net/", "PARSER_URL_HOSTS"),
        ("http://org/", "PARSER_URL_HOSTS"),
        ("http://[::1", "cannot be read"),
        ("http://example.com:99999/", "cannot be read"),
    ],
)
def test_urls_that_are_refused_before_anything_is_resolved(url, words):
    with pytest.raises(InvalidRequest, match=words):
        fetch(url, "example.com,*.org", allowed=lambda address: pytest.fail("resolved"))


def test_a_listed_host_is_fetched_from(site, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")  # another one's word where the request goes
    monkeypatch.setenv("NO_PROXY", "")
    site.answers["/a.pdf"] = (200, {}, [b"%PDF-", b"1.4"])
    assert fetch(f"http://localhost:{site.port}/a.pdf", f"localhost:{site.port}") == b"%PDF-1.4"


def test_a_listed_name_that_leads_inside_is_not(site):
    for host in ("localhost", "127.0.0.1"):
        with pytest.raises(InvalidRequest, match="not a public address"):
            fetch(f"http://{host}:{site.port}/a", f"{host}:{site.port}", allowed=is_public)
    assert site.asked == []


def test_other_spellings_of_the_loopback_address_lead_nowhere(site):
    for host in ("2130706433", "0x7f000001", "127.1", "0177.0.0.1"):
        with pytest.raises((InvalidRequest, InvalidDocument)):
            fetch(f"http://{host}:{site.port}/a", f"{host}:{site.port}", allowed=is_public)
    assert site.asked == []


def test_the_address_that_is_checked_is_the_one_that_is_connected_to(monkeypatch):
    """DNS rebinding: the name has a public address at first, and a private one when it is asked again."""
    answers = iter(["8.8.8.8", "127.0.0.1"])

    async def run():
        def getaddrinfo(host, port, *_):
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(answers), port))]

        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        resolver = GuardedResolver(is_public)
        (found,) = await resolver.resolve("example.com", 80)
        assert found["host"] == "8.8.8.8", "aiohttp connects to this, and asks no more"
        with pytest.raises(OSError, match="not a public address"):
            await resolver.resolve("example.com", 80)

    asyncio.run(run())


def test_redirects_are_checked_like_the_first_address(site):
    site.answers["/there"] = (302, {"Location": f"http://127.0.0.1:{site.port}/secret"}, [])
    site.answers["/other"] = (302, {"Location": "http://elsewhere.example/"}, [])
    site.answers["/round"] = (302, {"Location": "/round"}, [])
    listed = f"localhost:{site.port}"
    for path in ("/there", "/other"):
        with pytest.raises(InvalidRequest, match="PARSER_URL_HOSTS"):
            fetch(f"http://localhost:{site.port}{path}", listed)
    assert "/secret" not in site.asked
    with pytest.raises(InvalidDocument, match="redirects more than"):
        fetch(f"http://localhost:{site.port}/round", listed)


def test_so_many_redirects_are_followed(site):
    for left, status in enumerate((301, 302, 303, 307, 308, 302), 1):
        site.answers[f"/{left}"] = (status, {"Location": f"{left - 1}"}, [])
    site.answers["/0"] = (200, {}, [b"%PDF"])
    assert fetch(f"http://localhost:{site.port}/5", f"localhost:{site.port}") == b"%PDF"
    with pytest.raises(InvalidDocument, match="redirects more than 5 times"):
        fetch(f"http://localhost:{site.port}/6", f"localhost:{site.port}")


def test_size_and_time_are_bounded(site):
    site.answers["/large"] = (200, {}, (bytes(1 << 18) for _ in range(100)))
    with pytest.raises(DocumentTooLarge, match="1 MiB"):
        fetch(f"http://localhost:{site.port}/large", f"localhost:{site.port}", max_body_mib=1)

    def drops():
        for _ in range(100):
            time.sleep(0.1)
            yield b"x"

    site.answers["/slow"] = (200, {}, drops())
    with pytest.raises(InvalidDocument, match="PARSER_URL_TIMEOUT_S"):
        fetch(f"http://localhost:{site.port}/slow", f"localhost:{site.port}", url_timeout_s=0.5)


def test_other_answers_are_named(site):
    site.answers["/gone"] = (404, {}, [])
    with pytest.raises(InvalidDocument, match="404"):
        fetch(f"http://localhost:{site.port}/gone", f"localhost:{site.port}")
    with pytest.raises(InvalidDocument, match="cannot be reached"):
        fetch("http://localhost:1/", "localhost:1")
