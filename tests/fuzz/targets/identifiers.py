# SPDX-License-Identifier: Apache-2.0
"""Short texts that name something: page ranges, ids of events, result addresses, names of files in answers and forms,
API keys, URLs, secrets and pauses of callbacks."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from pathlib import Path

from starlette.requests import Request

from docparser.clients import key_ring, keys
from docparser.convert.names import disposition, is_safe_path
from docparser.errors import InvalidJob, InvalidRequest, LinkRefused, NotReady
from docparser.http import admission
from docparser.http.jobs import events
from docparser.http.strict_reading import form_of
from docparser.jobs.callback_sender import LONGEST_S, pause, retry_after
from docparser.jobs.links import Links
from docparser.jobs.step_work import pages_of_job
from docparser.jobs.storage.data_folder import FolderFiles
from docparser.jobs.webhook import Signer
from docparser.outbound import AddressRefused, GuardedClient, ListedHosts, is_public
from docparser.settings import Settings
from env_values import is_loopback
from tests.fuzz.choices import Choices
from tests.fuzz.verdict import Broken

FOLDER = tempfile.TemporaryDirectory(prefix="fuzz-", dir="/dev/shm")
LINKS = Links(FolderFiles(Path(FOLDER.name)), 3600)
JOB = "0123456789abcdef"
KEY = "0" * 64
WORDS = (
    *("1", "2-", "-", ",", "3-1", "999999", "0", "sha256:" + KEY, "sha256:", "Bearer ", "token ", "Basic YTo", "#"),
    *(" ", "\n", "http://", "https://", "a.example", ":80", "@", "[::1]", "127.0.0.1", "0x7f.1", "::ffff:10.0.0.1"),
    *("64:ff9b::1", ".pdf", "..", "CON", "x", "é", "9" * 30, "1e5", "_1"),
    *("*=", "*0", "''", "; filename", "=?", "?B?", "?=", "utf-8", "idna", "undefined"),
)
SQLITE_LARGEST = 2**63 - 1


def target(data: bytes) -> None:
    choices = Choices(data)
    kind = choices.below(9)
    text = choices.text(WORDS, longest=10_000)
    (ranges, event_ids, addresses, names, key_file, key_headers, urls, callbacks, forms)[kind](text, choices)


def ranges(text: str, choices: Choices) -> None:
    count = choices.one((1, 2, 100, 5000))
    try:
        pages = pages_of_job(text, count)
    except InvalidJob:
        return
    if pages != sorted(set(pages)) or not pages or pages[0] < 1 or pages[-1] > count:
        raise Broken("page ranges are pages of the document, each once")


def event_ids(text: str, choices: Choices) -> None:
    headers = [(b"last-event-id", text.encode("latin-1", "replace"))]
    try:
        after = events._last_event(Request({"type": "http", "headers": headers}))
    except InvalidJob:
        return
    if not -1 <= after <= SQLITE_LARGEST:
        raise Broken("the id of an event fits the database")


def addresses(text: str, choices: Choices) -> None:
    good = LINKS.path(JOB, "result.jsonl").split("/")[-2]
    tried = text if choices.chance(2) else good[: choices.below(60)] + text
    try:
        LINKS.check(JOB, tried)
    except LinkRefused:
        return
    if tried != good:
        raise Broken("an address that was not made here is taken")


def names(text: str, choices: Choices) -> None:
    header = disposition(text, "zip")
    header.encode("latin-1")
    if any(ord(sign) < 32 for sign in header):
        raise Broken("a header has one line")
    if is_safe_path(text) and (text.startswith("/") or ".." in text.split("/")):
        raise Broken("a path in an archive stays inside")


def key_file(text: str, choices: Choices) -> None:
    file = Path(FOLDER.name) / "keys"
    file.write_bytes(text.encode("utf-8", "surrogatepass" if choices.chance(2) else "replace"))
    settings = Settings(bind="0.0.0.0", api_keys_file=file, api_keys=text if choices.chance(2) else "")
    try:
        ring = key_ring.KeyRing.of(settings)
    except NotReady:
        return
    if not ring:
        raise Broken("a service that others can reach has keys")
    if ring.find("") is not None or ring.find(KEY) is not None:
        raise Broken("a request without a key has no owner")
    for key in ring.keys():  # noqa: SIM118 (no mapping)
        if keys.parse_entry(key.entry) != key:
            raise Broken("an entry is read as it was written")


def key_headers(text: str, choices: Choices) -> None:
    ring = key_ring.KeyRing(f"sha256:{KEY}")
    sent = text.encode("utf-8", "surrogatepass" if choices.chance(2) else "replace")
    if ring.find(admission.sent_key({choices.one((b"authorization", b"x-api-key")): sent})) is not None:
        raise Broken("an unknown key has an owner")
    admission.needs_key(choices.one(("GET", "POST", "DELETE")), text)
    if is_loopback(text) and not text.strip("[]").startswith(("127.", "localhost", "::", "0")):
        raise Broken("an address is taken for loopback")


def urls(text: str, choices: Choices) -> None:
    client = GuardedClient(ListedHosts("a.example,*.b.example:8443,10.0.0.1", "PARSER_URL_HOSTS"), is_public)
    try:
        asked = client._check(text)
    except AddressRefused:
        return
    host = (asked.raw_host or "").rstrip(".")
    if asked.user or (
        (host, asked.port) not in (("a.example", 80), ("a.example", 443))
        and not (host.endswith(".b.example") and asked.port == 8443)
    ):
        raise Broken("a URL of a host that is not listed is asked")


def callbacks(text: str, choices: Choices) -> None:
    """What an operator lists as secrets, and what a receiver answers as Retry-After."""
    asked = retry_after(text, 0.0)
    if asked is not None and not 0 <= asked:
        raise Broken("a pause goes forward")
    if not 0 < pause(choices.one((1, 2, 40, 100_000)), 5.0, asked) <= LONGEST_S:
        raise Broken("a pause has bounds")
    try:
        secrets = Signer(text, None).secrets()
    except NotReady:
        return
    if not all(24 <= len(secret) <= 64 for secret in secrets):
        raise Broken("a secret that signs is long enough")


def forms(text: str, choices: Choices) -> None:
    """What names the file of a form."""
    head = b"--x\r\nContent-Disposition: form-data; name=file; filename" + text.encode("utf-8", "surrogatepass")

    async def body() -> dict[str, object]:
        return {"type": "http.request", "body": head + b"\r\n\r\n1\r\n--x--\r\n"}

    async def read() -> None:
        headers = [(b"content-type", b"multipart/form-data; boundary=x")]
        async with form_of(Request({"type": "http", "headers": headers}, body), max_fields=5):
            pass

    with contextlib.suppress(InvalidRequest):
        asyncio.run(read())


def seeds() -> list[bytes]:
    return [bytes([kind, 6]) + bytes(range(40)) for kind in range(9)]
