# SPDX-License-Identifier: Apache-2.0
"""A callback's request: where it may go, and how it is signed (Standard Webhooks 1.0)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from pathlib import Path

from docparser.errors import InvalidJob, NotReady
from docparser.outbound import AddressRefused, GuardedClient, ListedHosts, NotPublic, public_or_in
from docparser.settings import Settings
from docparser.settings.base import listed

MOST_CHARACTERS = 2048
PREFIX = "whsec_"
LEAST, MOST = 24, 64  # bytes of a secret
MOST_SECRETS = 4
HOW = f"{PREFIX} and base64 of {LEAST} to {MOST} bytes, as `echo {PREFIX}$(openssl rand -base64 32)` makes it"


def client_of(settings: Settings) -> GuardedClient:
    hosts = ListedHosts(settings.callback_hosts, "PARSER_CALLBACK_HOSTS")
    return GuardedClient(hosts, public_or_in(listed(settings.callback_networks)))


async def check_url(client: GuardedClient, url: str) -> None:
    """Raises InvalidJob for a ``callbackUrl`` that would be refused when it is sent to."""
    if not client.hosts:
        raise InvalidJob("callbackUrl: this service sends no callbacks (PARSER_CALLBACK_HOSTS is empty); leave it out")
    try:
        await client.look(url)
    except AddressRefused as exc:
        raise InvalidJob(f"callbackUrl: {refusal_words(exc)}") from None


def refusal_words(exc: AddressRefused) -> str:
    """What the client is told, at submission and in the job's state."""
    if isinstance(exc, NotPublic):
        return f"{exc}; callbacks go to public ones, and to those that the operator lists in PARSER_CALLBACK_NETWORKS"
    return str(exc)


class Signer:
    """Reads the secrets' file for each signature, so that a rotation needs no restart."""

    def __init__(self, text: str, file: Path | None) -> None:
        self._text = text
        self._file = file

    @classmethod
    def of(cls, settings: Settings) -> Signer:
        """Raises NotReady for a malformed secret, and if callbacks are allowed without any secret."""
        signer = cls(settings.callback_secrets, settings.callback_secrets_file)
        if settings.callback_hosts or settings.callback_secrets or settings.callback_secrets_file:
            signer.secrets()
        return signer

    def secrets(self) -> list[bytes]:
        """Raises NotReady, whose message holds no secret."""
        entries = [
            (f"PARSER_CALLBACK_SECRETS: entry {number}", entry.strip())
            for number, entry in enumerate(self._text.split(","), 1)
        ]
        if self._file is not None:
            try:
                lines = self._file.expanduser().read_text(encoding="utf-8").splitlines()
            except (OSError, ValueError) as exc:
                raise NotReady(f"PARSER_CALLBACK_SECRETS_FILE: {self._file} cannot be read ({exc})") from None
            entries += [
                (f"PARSER_CALLBACK_SECRETS_FILE: {self._file}, line {number}", line.partition("#")[0].strip())
                for number, line in enumerate(lines, 1)
            ]
        found = [_secret(where, entry) for where, entry in entries if entry]
        if not 0 < len(found) <= MOST_SECRETS:
            raise NotReady(
                f"PARSER_CALLBACK_HOSTS allows callbacks, and there are {len(found)} secrets to sign them: "
                f"expected 1 to {MOST_SECRETS} in PARSER_CALLBACK_SECRETS or PARSER_CALLBACK_SECRETS_FILE, each {HOW}"
            )
        return found

    def headers(self, identity: str, moment: int, body: bytes) -> dict[str, str]:
        """``moment`` is that of the attempt, in seconds since the epoch. Blocks on the disk. Raises NotReady."""
        signed = f"{identity}.{moment}.".encode() + body
        signatures = (hmac.new(secret, signed, hashlib.sha256).digest() for secret in self.secrets())
        return {
            "webhook-id": identity,
            "webhook-timestamp": str(moment),
            "webhook-signature": " ".join(f"v1,{base64.b64encode(signature).decode()}" for signature in signatures),
        }


def _secret(where: str, entry: str) -> bytes:
    try:
        secret = base64.b64decode(entry.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        secret = b""
    if not entry.startswith(PREFIX) or not LEAST <= len(secret) <= MOST:
        raise NotReady(f"{where} is no secret; expected {HOW}")
    return secret
