# SPDX-License-Identifier: Apache-2.0
"""Connections that idle, trickle, flood, do not read, or lie, against a real service with short time-outs.

Clients are told apart by their address on loopback: 127.0.0.2, 127.0.0.3 and so on.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import io
import json
import re
import select
import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest
from pydantic import ValidationError

from docparser.clients import connections as registries
from docparser.clients.connections import ConnectionRegistry
from docparser.clients.shares import network_of
from docparser.http.errors import FAMILIES, OTHERS
from docparser.http_protocol import MOST_FIELDS, CountedTransport, Head, error_answer
from docparser.settings import Settings
from tests.support import samples
from tests.support.parser_process import JOBS, SIMULATED_WORK, ParserProcess, running_service
from tests.support.wait import WAIT_S, wait_for

STRANGER, OTHER, PROXY = "127.0.0.2", "127.0.0.3", "127.0.0.9"
LIMITS = {
    "PARSER_MAX_CONNECTIONS": "80",
    "PARSER_MAX_REQUESTS": "4",
    "PARSER_MAX_BODY_MIB": "8",
    "PARSER_MAX_BODIES_MIB": "24",
    "PARSER_MAX_EVENT_STREAMS": "4",
    "PARSER_HEADER_TIMEOUT_S": "3",
    "PARSER_STALL_TIMEOUT_S": "3",
    "PARSER_KEEP_ALIVE_S": "6",
    "PARSER_TRUSTED_PROXIES": PROXY,
}
PAGE = samples.save(samples.picture((240, 320)), "PNG")


@pytest.fixture(scope="module")
def parser(tmp_path_factory, layout_model, _page_vlm) -> Iterator[ParserProcess]:
    """Its page work is simulated: most that is sent here never becomes a page."""
    folder, settings = tmp_path_factory.mktemp("connections"), {"LAYOUT_MODEL_DIR": str(layout_model), **LIMITS}
    with running_service(folder, SIMULATED_WORK, VLM_URL=_page_vlm.url, **settings) as running:
        yield running


def connect(parser: ParserProcess, address: str, data: bytes = b"") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", parser.port), timeout=WAIT_S, source_address=(address, 0))
    with contextlib.suppress(ConnectionError):
        connection.sendall(data)
    return connection


def answer(connection: socket.socket) -> tuple[int, dict]:
    """Status and JSON of the answer on a connection."""
    found = http.client.HTTPResponse(connection)
    found.begin()
    return found.status, json.loads(found.read())


def ask(parser: ParserProcess, address: str, method: str, path: str, body: bytes = b"", **headers: str):
    """Status and body of a request on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", parser.port, timeout=WAIT_S, source_address=(address, 0))
    try:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, names)
        found = connection.getresponse()
        return found.status, found.read()
    finally:
        connection.close()


def form(*texts: tuple[str, bytes], file: bytes = PAGE) -> dict:
    parts = b"".join(
        b'--x\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n' % (n.encode(), t) for n, t in texts
    )
    head = b'--x\r\nContent-Disposition: form-data; name="file"; filename="page.png"\r\n\r\n'
    return {"body": parts + head + file + b"\r\n--x--\r\n", "content_type": "multipart/form-data; boundary=x"}


def good_work(parser: ParserProcess, address: str) -> None:
    """A form, a page in JSON and a job of this client are taken."""
    assert ask(parser, address, "POST", "/parse", **form())[0] == 200
    body = json.dumps({"file": samples.encode(PAGE)}).encode()
    assert ask(parser, address, "POST", "/layout-parsing", body, content_type="application/json")[0] == 200
    status, text = ask(parser, address, "POST", JOBS, **form(("model", b"PaddleOCR-VL-1.6")))
    assert status == 200, text
    ask(parser, address, "DELETE", f"{JOBS}/{json.loads(text)['data']['jobId']}?purge=true")


def head(path: str, *lines: str) -> bytes:
    return "\r\n".join((f"POST {path} HTTP/1.1", "Host: 127.0.0.1", *lines, "", "")).encode()


TRICKLED = head("/parse", "Content-Type: multipart/form-data; boundary=x", "Content-Length: 1000000") + b"--x\r\n"


def test_many_idle_and_trickling_connections_keep_nobody_else_out(parser):
    begun = (b"", b"GET /health HT", TRICKLED)
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(connect(parser, STRANGER, begun[number % 3])) for number in range(300)]
        good_work(parser, OTHER)
        told = {}
        for one in opened:
            with contextlib.suppress(OSError, http.client.HTTPException):  # it waits, or was one too many to be told
                if select.select([one], [], [], 0)[0]:
                    status, words = answer(one)
                    told[status] = words["msg"]
        assert "PARSER_MAX_CONNECTIONS" in told[429]
    good_work(parser, OTHER)


def test_a_head_of_very_many_fields_is_refused_and_a_body_of_many_lines_is_not(parser):
    """Two requests on one connection: lines of a body are none of the next head."""
    body = b"\n" * 5000
    for fields, expected in ((100, 422), (9000, 431)):
        lines = (f"X-{number}: y" for number in range(fields))
        data = head("/layout-parsing", f"Content-Length: {len(body)}", *lines) + body
        with connect(parser, STRANGER, data) as connection:
            status, words = answer(connection)
            assert status == expected and ("more than 128 fields" in words["msg"] if status == 431 else words)
            if status != 431:
                connection.sendall(data)
                assert answer(connection)[0] == expected


@pytest.mark.parametrize("end", [b"\r\n", b"\n"])
def test_fields_of_a_head_are_counted_however_it_is_cut(end: bytes):
    longest = b"".join(b"X: %d" % number + end for number in range(MOST_FIELDS))
    for fields, refused in ((longest, False), (longest + b"X: y" + end, True)):
        data = b"GET / HTTP/1.1" + end + fields + end
        for cut in range(1, len(data)):
            counted = Head()
            pieces = data[:cut], data[cut:] + b"\n" * 1000
            assert any([counted.too_long(piece) for piece in pieces]) is refused, cut


@pytest.mark.parametrize("line", [b"PRI * HTTP/2.0", b"GET /health HTTP/9.9"])
def test_another_version_of_http_is_refused(parser, line):
    with connect(parser, STRANGER, line + b"\r\nHost: 127.0.0.1\r\n\r\nSM\r\n\r\n") as connection:
        status, words = answer(connection)
    assert (status, words["errorMsg"]) == (505, "This service speaks HTTP/1.1 and HTTP/1.0 only.")


@pytest.mark.parametrize("addresses", [2, 200])
@pytest.mark.parametrize("begun", [b"", b"GET /health HTTP/1.1\r\nX: "], ids=["nothing", "part of a head"])
def test_connections_without_a_head_from_many_addresses_keep_nobody_out(parser, addresses, begun):
    """They are more than all places, and go when others come, the oldest first."""
    with contextlib.ExitStack() as stack:
        opened = [
            stack.enter_context(connect(parser, f"127.0.1.{1 + number % addresses}", begun)) for number in range(200)
        ]
        for address in (OTHER, "127.0.0.1"):
            began = time.monotonic()
            assert ask(parser, address, "GET", "/health")[0] == 200
            assert time.monotonic() - began < 10, "a second where nothing else is at work"
        good_work(parser, OTHER)
        assert any(select.select([one], [], [], 0)[0] for one in opened)


class Silent:
    """A connection of a flood that nobody has read yet."""

    asked = looked_at = 0
    fresh = True

    @property
    def waiting(self) -> tuple[int, float]:
        type(self).looked_at += 1
        return (0, 0.0)

    @property
    def unread(self) -> bool:
        type(self).asked += 1
        return True

    def cut(self) -> None:
        pass

    def look(self, now: float) -> None:
        pass


class Busy(Silent):
    """A connection whose request is at work."""

    waiting = None  # type: ignore[assignment]  # nothing is waited for


@pytest.mark.parametrize(
    ("address", "let_in", "status", "words"),
    [
        ("10.0.0.1", 4, 429, "4 connections of 10.0.0.1 are open, .* half of PARSER_MAX_CONNECTIONS"),
        ("10.9.0.1", 8, 503, "8 connections are open, which is all"),  # a proxy has them for many clients
        ("127.0.0.1", 4 + registries.KEPT, 429, "4 connections of 127.0.0.1"),  # some are kept for probes
    ],
)
def test_how_many_connections_each_may_have(address: str, let_in: int, status: int, words: str):
    """Of 8. Those beyond are told why, and very many more are not."""
    loop = asyncio.new_event_loop()
    registry = ConnectionRegistry(Settings(max_connections=8, trusted_proxies="10.9.0.0/16"))
    connections = [Busy() for _ in range(let_in + registries.REFUSED_AT_ONCE + 1)]
    found = [registry.enter(connection, address, loop) for connection in connections]
    assert found[:let_in] == [None] * let_in
    refused = [refusal for refusal in found[let_in:-1] if refusal is not None]
    assert len(refused) == registries.REFUSED_AT_ONCE and {refusal.status for refusal in refused} == {status}
    assert re.match(words, refused[0].words)
    assert found[-1] == registries.Refusal(503, "")
    registry.leave(connections[0])
    assert registry.enter(connections[0], address, loop) is None
    loop.close()


def test_a_flood_in_one_turn_of_the_loop_costs_little_for_each_connection():
    """Asking all 1,024 for each of the next 500 took the service 1.5 s of processor time, and looking at all 0.4 s."""
    loop = asyncio.new_event_loop()
    registry = ConnectionRegistry(Settings())
    for number in range(1524):
        assert registry.enter(Silent(), f"10.0.0.{number % 200}", loop) is None
    loop.close()
    assert 0 < Silent.asked <= 64 * 500 and Silent.looked_at <= 64 * 500


class Waiting:
    """One that was read: its head is to come ``since`` then, and so many heads came ``before``."""

    unread = False

    def __init__(self, since: float, before: int = 0) -> None:
        self.waiting, self.fresh, self.ended = (0, since), before == 0, False

    def cut(self) -> None:
        self.ended = True

    def look(self, now: float) -> None:
        pass


def test_the_one_that_waited_longest_makes_room_whatever_came_on_it_before():
    """Of 128 places: a flood of those that never sent a head, behind two that did; one of these waits longer."""
    loop = asyncio.new_event_loop()
    registry = ConnectionRegistry(Settings(max_connections=128))
    places = [Waiting(200.0, 1), Waiting(0.5, 1), *(Waiting(float(number)) for number in range(1, 127))]
    for number, place in enumerate(places):
        assert registry.enter(place, f"10.0.0.{number % 3}", loop) is None
    for first in (1, 2, 3):
        assert registry.enter(Waiting(300.0), "10.0.0.9", loop) is None
        assert [place.ended for place in places].index(True) == 1 and places[first].ended
        assert sum(place.ended for place in places) == first
    loop.close()


def test_connections_at_work_stay_and_this_machine_has_places_of_its_own(parser):
    """Bodies that come slowly take all places; who is refused is told so, but a probe from here is answered."""
    with contextlib.ExitStack() as stack:
        for number in range(80):
            stack.enter_context(connect(parser, f"127.0.2.{1 + number % 3}", TRICKLED))
        status, words = 0, b""
        for _ in range(20):  # while heads are not read yet, others take their places
            status, words = ask(parser, OTHER, "GET", "/health")
            if status == 503:
                break
            stack.enter_context(connect(parser, "127.0.2.4", TRICKLED))
            time.sleep(0.1)
        assert status == 503 and b"80 connections" in words
        assert ask(parser, "127.0.0.1", "GET", "/health")[0] == 200


def test_bodies_that_come_slowly_for_long_make_room(parser):
    """Two addresses with bodies at twice the least rate would close the service for an hour."""
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(connect(parser, f"127.0.2.{1 + number % 3}", TRICKLED)) for number in range(80)]
        for _ in range(10):
            time.sleep(0.5)
            for one in slow:
                one.sendall(b"a" * 1024)
        good_work(parser, OTHER)
        gone = 0
        for one in slow:
            if select.select([one], [], [], 0)[0]:
                gone += 1
        assert 0 < gone < 20, "only as many as others need"


@pytest.mark.parametrize(
    ("address", "client"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::1", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::1"),
        ("", ""),
        ("a name", "a name"),
    ],
)
def test_who_is_one_client(address, client):
    assert network_of(address) == client


def test_a_refused_client_that_is_silent_gives_its_place_back_soon(parser):
    """Not after the 30 s of one that goes on sending. Who sends to what is gone is reset."""
    with connect(parser, STRANGER, b"NONSENSE\r\n\r\n") as connection:
        assert answer(connection)[0] == 400
        time.sleep(3.5)
        with pytest.raises(ConnectionError):
            for _ in range(20):
                connection.send(b"a")
                time.sleep(0.1)


@pytest.mark.parametrize(("status", "again"), [(429, "10"), (503, "10"), (408, None), (413, None)])
def test_who_came_at_a_bad_time_is_told_when_to_come_again(status, again):
    """Of connections, where no application writes the answer."""
    head, _, body = error_answer(status, "why").partition(b"\r\n\r\n")
    line, _, lines = head.partition(b"\r\n")
    headers = http.client.parse_headers(io.BytesIO(lines))
    assert line.split()[1] == b"%d" % status and headers["Connection"] == "close"
    assert headers["Retry-After"] == again and int(headers["Content-Length"]) == len(body)
    said = json.loads(body)
    assert said["code"] == said["errorCode"] == status
    for family in (*FAMILIES, OTHERS):
        fields = family.fields(status, "why")
        assert said.items() >= {name: value for name, value in fields.items() if name != "code"}.items()


def test_a_head_or_body_that_does_not_come_is_408(parser):
    with contextlib.ExitStack() as stack:
        silent, part, trickled, kept = (
            stack.enter_context(connect(parser, STRANGER, data))
            for data in (b"", b"GET /health HTTP/1.1\r\n", TRICKLED, b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        )
        stop = stack.enter_context(trickling(part, trickled))
        status, words = answer(part)
        assert (status, words["errorCode"], words["code"]) == (408, 408, 408)
        assert "PARSER_HEADER_TIMEOUT_S" in words["msg"] == words["errorMsg"]
        status, words = answer(trickled)
        assert status == 408 and "PARSER_LEAST_RATE" in words["errorMsg"]
        stop()
        assert silent.recv(1) == b"", "there was nothing to answer"
        assert answer(kept)[0] == 200 and kept.recv(1) == b"", "an idle connection is closed"


@contextlib.contextmanager
def trickling(*connections: socket.socket) -> Iterator:
    """A byte now and then on each, until the body ends or calls what it is given."""
    over = threading.Event()

    def send() -> None:
        while not over.wait(0.2):
            for connection in connections:
                with contextlib.suppress(OSError):
                    connection.send(b"a")

    thread = threading.Thread(target=send)
    thread.start()

    def stop() -> None:
        over.set()
        thread.join()

    try:
        yield stop
    finally:
        stop()


def test_bytes_count_as_they_arrive_and_a_refused_client_sees_why(parser):
    """Three chunked bodies of 7 MiB do not fit into 12, the half of 24; the clients send on all the same."""
    piece = b"%x\r\n%s\r\n" % (1 << 20, bytes(1 << 20))
    begun = head(JOBS, "Content-Type: multipart/form-data; boundary=x", "Transfer-Encoding: chunked") + piece * 5
    with contextlib.ExitStack() as stack:
        first = [stack.enter_context(connect(parser, STRANGER, begun)) for _ in range(3)]
        readable, _, _ = select.select(first, [], [], WAIT_S)
        with contextlib.suppress(ConnectionError):
            readable[0].sendall(piece * 3)
        status, words = answer(readable[0])
        assert status == words["code"] == 429 and "PARSER_MAX_BODIES_MIB" in words["msg"]
        good_work(parser, OTHER)


@pytest.mark.parametrize(
    ("line", "status", "words"),
    [
        ("Content-Length: 12000000", 413, "PARSER_MAX_BODY_MIB"),
        ("Host: elsewhere.example\r\nContent-Length: 12000000", 400, "Host"),
        ("Origin: http://evil.example\r\nContent-Length: 12000000", 403, "PARSER_ALLOWED_ORIGINS"),
        ("Transfer-Encoding: chunked\r\nContent-Length: 12000000", 400, "Transfer-Encoding"),
        ("Content-Length: 12000000\r\nContent-Length: 5", 400, "HTTP/1.1"),
        ("bad header\r\nContent-Length: 12000000", 400, "HTTP/1.1"),
    ],
)
@pytest.mark.parametrize("path", ["/layout-parsing", JOBS])
def test_a_refused_client_may_send_its_whole_body_first(parser, path, line, status, words):
    with connect(parser, STRANGER, head(path, line)) as connection:
        for _ in range(12):
            piece = bytes(1_000_000)
            connection.sendall(b"%x\r\n%s\r\n" % (len(piece), piece) if "chunked" in line else piece)
        found, text = answer(connection)
    assert found == status == text["errorCode"] and words in text["errorMsg"]
    assert path != JOBS or (text["code"], text["msg"]) == (status, text["errorMsg"])


def test_a_client_that_does_not_read_is_cut_off(parser):
    asked = b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 500
    with socket.socket() as deaf, socket.socket() as slow:
        for one in (deaf, slow):
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.bind((STRANGER, 0))
            one.settimeout(WAIT_S)
            one.connect(("127.0.0.1", parser.port))
            one.sendall(asked)
        gone = select.poll()
        gone.register(deaf, 0)  # errors and hang-ups alone

        def cut_off() -> bool:
            assert slow.recv(1 << 15), "who reads, however slowly, is served on"
            return bool(gone.poll(0))

        wait_for(cut_off, WAIT_S, "the connection was ended")


def test_streams_of_events_are_bounded(parser, page_vlm):
    with page_vlm.holding(), contextlib.ExitStack() as stack:
        status, text = ask(parser, OTHER, "POST", JOBS, **form(("model", b"PaddleOCR-VL-1.6")))
        job = json.loads(text)["data"]["jobId"]
        asked = f"GET {JOBS}/{job}/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()

        def stream(address: str) -> socket.socket:
            connection = stack.enter_context(connect(parser, address, asked))
            assert connection.recv(12) == b"HTTP/1.1 200"
            return connection

        first = stream(STRANGER)
        stream(STRANGER)
        with connect(parser, STRANGER, asked) as third:
            status, words = answer(third)
        assert status == words["code"] == 429 and "PARSER_MAX_EVENT_STREAMS" in words["msg"]
        stream(OTHER)
        first.close()

        def again() -> bool:
            with connect(parser, STRANGER, asked) as connection:
                return connection.recv(12) == b"HTTP/1.1 200"

        wait_for(again, WAIT_S, "the place of the one that left")
        ask(parser, OTHER, "DELETE", f"{JOBS}/{job}?purge=true")


def test_only_a_trusted_proxy_says_who_the_client_is(parser):
    def seen(address: str, request: str) -> str:
        body = b'{"file": "!"}'
        headers = {"X_Forwarded_For": "198.51.100.9, 203.0.113.7", "X_Request_Id": request}
        assert (
            ask(parser, address, "POST", "/layout-parsing", body, content_type="application/json", **headers)[0] == 422
        )
        lines: list[dict] = []

        def logged() -> list[dict]:
            records = [json.loads(line) for line in parser.log.read_text().splitlines() if request in line]
            lines[:] = [record for record in records if record.get("event") == "document.submitted"]
            return lines

        wait_for(logged, WAIT_S, "a line of the audit log")
        return lines[0]["address"]

    assert seen(PROXY, "by-proxy") == "203.0.113.7"
    assert seen(STRANGER, "by-stranger") == STRANGER


@pytest.mark.parametrize("value", ["proxy.example", "10.0.0.1/8", "*"])
def test_a_proxy_that_is_no_address_is_refused(value):
    with pytest.raises(ValidationError, match="expected addresses and networks"):
        Settings(trusted_proxies=value)


def test_texts_of_forms_are_utf_8(parser):
    status, text = ask(parser, OTHER, "POST", "/parse", **form(("options", b"\xff{}")))
    assert status == 422 and "'options' is not UTF-8" in json.loads(text)["errorMsg"]
    status, text = ask(parser, OTHER, "POST", JOBS, **form(("model", b"PaddleOCR-VL-1.6"), ("batchId", b"\xe9")))
    assert status == json.loads(text)["code"] == 400 and "'batchId' is not UTF-8" in json.loads(text)["msg"]


def test_long_documents_in_json_are_read_like_short_ones(service):
    """2 MB of base64, which never become text in memory."""
    file = samples.image("BMP", (640, 800))
    body = json.dumps({"file": file, "visualize": False, "logId": "long"}).encode()
    status, text = ask(service, OTHER, "POST", "/layout-parsing", body, content_type="application/json")
    found = json.loads(text)
    assert status == 200 and found["logId"] == "long" and len(body) > 2_000_000
    assert found["result"]["dataInfo"]["width"] == 640

    bad = body.replace(file[-40:].encode(), b"!" * 40)
    status, text = ask(service, OTHER, "POST", "/layout-parsing", bad, content_type="application/json")
    assert status == 422 and json.loads(text) == json.loads(text) | {"logId": "long"}
    assert "file: not base64" in json.loads(text)["errorMsg"]

    job = {"model": "PaddleOCR-VL-1.6", "fileUrl": "data:image/bmp;base64," + file}
    status, text = ask(service, OTHER, "POST", JOBS, json.dumps(job).encode(), content_type="application/json")
    assert status == 200, text
    ask(service, OTHER, "DELETE", f"{JOBS}/{json.loads(text)['data']['jobId']}?purge=true")


@pytest.mark.server
def test_a_client_that_has_reset_its_connection_is_no_error():
    """The answer's end cannot be told to it; the loop does not know yet that it has gone."""

    async def tell_it() -> bool:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            client = socket.create_connection(listening.getsockname())
            own, _ = listening.accept()
        transport, _ = await asyncio.get_running_loop().connect_accepted_socket(asyncio.Protocol, own)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        CountedTransport(transport, lambda: False).write_eof()
        return transport.is_closing()

    assert asyncio.run(tell_it())
