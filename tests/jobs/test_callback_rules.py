# SPDX-License-Identifier: Apache-2.0
"""Callbacks: settings, secrets and signatures, pauses, and addresses that are refused."""

from __future__ import annotations

import asyncio
import base64
import email.utils
import socket
import time
from collections.abc import Callable

import openai
import pytest
from pydantic import ValidationError

from docparser.errors import InvalidJob, NotReady
from docparser.jobs.callback_sender import LONGEST_S, Attempt, pause, retry_after
from docparser.jobs.webhook import Signer, check_url, client_of
from docparser.settings import Settings
from tests.support.callback_receiver import SECRET


def secret_of(size: int) -> str:
    return "whsec_" + base64.b64encode(bytes(range(size))).decode()


OTHER = secret_of(32)


def verify(headers: dict[str, str], body: bytes, secret: str) -> None:
    """By openai's reader of Standard Webhooks, which is no code of ours. Raises openai.InvalidWebhookSignatureError."""
    openai.OpenAI(api_key="none").webhooks.verify_signature(body, headers, secret=secret)


def test_a_signature_is_verified_by_others_code():
    body = '{"type": "job.done", "data": "é"}'.encode()
    now = int(time.time())
    headers = Signer(SECRET, None).headers("id-1", now, body)
    verify(headers, body, SECRET)
    for wrong in (
        lambda: verify(headers, body + b" ", SECRET),
        lambda: verify(headers, body, OTHER),
        lambda: verify(headers | {"webhook-id": "id-2"}, body, SECRET),
        lambda: verify(headers | {"webhook-timestamp": str(now - 1)}, body, SECRET),
    ):
        with pytest.raises(openai.InvalidWebhookSignatureError):
            wrong()


def test_a_secret_is_replaced_without_a_restart(tmp_path):
    file = tmp_path / "secrets"
    file.write_text(f"# of the receiver\n{SECRET}\n")
    signer = Signer("", file)
    file.write_text(f"{OTHER}  # new\n{SECRET}\n")
    both = signer.headers("id", int(time.time()), b"{}")
    for secret in (SECRET, OTHER):
        verify(both, b"{}", secret)
    file.write_text(OTHER)
    with pytest.raises(openai.InvalidWebhookSignatureError):
        verify(signer.headers("id", int(time.time()), b"{}"), b"{}", SECRET)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"callback_hosts": "hooks.example"}, "PARSER_CALLBACK_HOSTS allows.*there are 0 secrets"),
        ({"callback_secrets": "hunter2hunter2"}, "PARSER_CALLBACK_SECRETS: entry 1 is no secret; expected whsec_"),
        ({"callback_secrets": f"{SECRET},whsec_aGk="}, "entry 2 is no secret.*24 to 64 bytes"),
        ({"callback_secrets": secret_of(23)}, "entry 1 is no secret.*24 to 64 bytes"),
        ({"callback_secrets": secret_of(65)}, "entry 1 is no secret.*24 to 64 bytes"),
        ({"callback_secrets": secret_of(32).removeprefix("whsec_")}, "entry 1 is no secret"),
        ({"callback_secrets": ",".join([SECRET] * 5)}, "there are 5 secrets.*1 to 4"),
        (
            {"callback_secrets_file": "/nowhere/secrets"},
            "PARSER_CALLBACK_SECRETS_FILE: /nowhere/secrets cannot be read",
        ),
    ],
)
def test_secrets_that_are_wrong_are_named_and_not_shown(settings, words):
    with pytest.raises(NotReady, match=words) as refused:
        Signer.of(Settings(**settings))
    assert "hunter2" not in str(refused.value) and SECRET not in str(refused.value)
    assert SECRET not in repr(Settings(callback_secrets=SECRET))
    Signer.of(Settings(callback_secrets=",".join(map(secret_of, (24, 25, 63, 64)))))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"callback_hosts": "https://hooks.example/"}, "'https://hooks.example/' cannot be used"),
        ({"callback_hosts": "*"}, "cannot be used; expected names like"),
        ({"url_hosts": "https://files.example/"}, "'https://files.example/' cannot be used"),
        ({"callback_networks": "10.0.0.0/99"}, "expected addresses and networks"),
    ],
)
def test_settings_that_are_wrong(settings, words):
    with pytest.raises(ValidationError, match=words.replace("*", r"\*")):
        Settings(**settings)


def test_pauses_double_vary_and_have_bounds():
    for attempts, longest in ((1, 5), (2, 10), (5, 80), (11, LONGEST_S), (5000, LONGEST_S)):
        pauses = {pause(attempts, 5.0, None) for _ in range(20)}
        assert longest / 2 <= min(pauses) and max(pauses) <= longest and len(pauses) > 1
    assert pause(1, 5.0, 60.0) == 60.0 and pause(1, 5.0, 1e9) == LONGEST_S and pause(1, 5.0, 0.0) >= 2.5


@pytest.mark.parametrize(
    ("status", "delivered"), [(199, False), (200, True), (204, True), (299, True), (300, False), (410, False)]
)
def test_which_answers_are_a_delivery(status, delivered):
    assert Attempt(status).delivered is delivered and not Attempt(None).delivered


def test_what_retry_after_may_say():
    now = time.time()
    assert retry_after("120", now) == 120.0 and retry_after(" 0 ", now) == 0.0
    in_a_minute = retry_after(email.utils.formatdate(now + 60, usegmt=True), now)
    assert in_a_minute is not None and 58 <= in_a_minute <= 61
    assert retry_after(email.utils.formatdate(now - 60, usegmt=True), now) == 0.0
    assert [retry_after(text, now) for text in (None, "", "soon", "-5", "٣", "Mon, 99 Foo 2026")] == [None] * 6
    assert retry_after("9" * 5000, now) is not None


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("ftp://hooks.example/", "http or https"),
        ("hooks.example/a", "http or https"),
        ("https:///a", "http or https"),
        ("https://me:secret@hooks.example/", "without user and password"),
        ("https://hooks.example:99999/", "cannot be read"),
        ("https://[::1", "cannot be read"),
        ("https://[]@", "cannot be read"),  # found by fuzzing
        ("https://.hooks.example/", "cannot be read"),  # no name server is ever asked for an empty label
        (f"https://{'a' * 64}.hooks.example/", "cannot be read"),
        ("https://elsewhere.example/", "port 443 of elsewhere.example is not allowed.*PARSER_CALLBACK_HOSTS"),
        ("https://hooks.example:8443/", "port 8443 of hooks.example is not allowed"),
        ("https://hooks.example.evil.example/", "PARSER_CALLBACK_HOSTS"),
        ("https://hooks.example\\@evil.example/", "cannot be read"),
        ("https://10.0.0.1/", "not a public address"),
        ("https://[::ffff:10.0.0.1]/", "not a public address"),
    ],
)
def test_addresses_that_are_refused(url, words):
    client = client_of(Settings(callback_hosts="hooks.example,10.0.0.1,[::ffff:10.0.0.1]"))
    with pytest.raises(InvalidJob, match=words) as refused:
        asyncio.run(check_url(client, url))
    assert str(refused.value).startswith("callbackUrl: ") and "secret" not in str(refused.value)


def test_a_name_that_does_not_exist_is_refused_and_one_that_nobody_can_look_up_now_is_not(monkeypatch):
    """The same name is looked up once for all who ask for it."""
    client, asked = client_of(Settings(callback_hosts="hooks.example")), []

    def failing(error: int) -> Callable[..., None]:
        def getaddrinfo(*arguments: object) -> None:
            asked.append(arguments[:2])
            time.sleep(0.05)
            raise socket.gaierror(error, "why")

        return getaddrinfo

    async def look() -> None:
        await asyncio.gather(*(check_url(client, "https://hooks.example/") for _ in range(3)))

    monkeypatch.setattr(socket, "getaddrinfo", failing(socket.EAI_AGAIN))
    asyncio.run(look())
    assert asked == [("hooks.example", 0)]
    monkeypatch.setattr(socket, "getaddrinfo", failing(socket.EAI_NONAME))
    with pytest.raises(InvalidJob, match="callbackUrl: there is no host hooks.example"):
        asyncio.run(check_url(client, "https://hooks.example/"))


def test_without_hosts_there_are_no_callbacks():
    with pytest.raises(InvalidJob, match=r"callbackUrl: .*PARSER_CALLBACK_HOSTS is empty"):
        asyncio.run(check_url(client_of(Settings()), "https://hooks.example/"))
