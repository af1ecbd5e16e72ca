# SPDX-License-Identifier: Apache-2.0
"""Signs callbacks as Standard Webhooks 1.0 says, so that receivers can check them with the libraries that exist.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md: HMAC-SHA256 over
``id.timestamp.body``, in base64. With several secrets there are several signatures, and one that fits is enough.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from pathlib import Path

from docparser.errors import NotReady
from docparser.settings import Settings

PREFIX = "whsec_"
LEAST, MOST = 24, 64  # bytes of a secret
MOST_SECRETS = 4
HOW = f"{PREFIX} and base64 of {LEAST} to {MOST} bytes, as `echo {PREFIX}$(openssl rand -base64 32)` makes it"


class Signer:
    """Reads the secrets' file for each signature, so that a rotation needs no restart."""

    def __init__(self, text: str, file: Path | None) -> None:
        self._text = text
        self._file = file

    @classmethod
    def of(cls, settings: Settings) -> Signer:
        """Raises NotReady for a secret that is none, and if there is none although callbacks are allowed."""
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
