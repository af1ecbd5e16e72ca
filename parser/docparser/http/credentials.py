# SPDX-License-Identifier: Apache-2.0
"""The key that a request sends, and what is said of one that opens nothing."""

from __future__ import annotations

import base64

from docparser.clients.keys import Key, shown_time

Headers = dict[bytes, bytes]
HOW = "send `Authorization: Bearer KEY` or `X-Api-Key: KEY` with your operator's key."
INVALID = 'Bearer error="invalid_token"'


def sent_key(headers: Headers) -> str:
    """The key in ``Authorization: Bearer KEY``, ``Authorization: token KEY`` or ``X-Api-Key: KEY``, or "".

    Or the password of ``Authorization: Basic``: what clients make of ``http://any:KEY@HOST``.
    """
    kind, _, sent = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    if kind.lower() == "basic":
        sent = _password(sent.strip())
    elif kind.lower() not in ("bearer", "token"):
        sent = ""
    return sent.strip() or headers.get(b"x-api-key", b"").decode("latin-1").strip()


def _password(sent: str) -> str:
    """RFC 7617; "" for what is none."""
    try:
        return base64.b64decode(sent, validate=True).decode().partition(":")[2]
    except ValueError:
        return ""


def refusal(headers: Headers, key: Key | None) -> tuple[str, str, str]:
    """Reason for the audit log, words for the client, and ``WWW-Authenticate``. ``key``: the one that was sent, which
    has expired; None if none was sent that is known."""
    if key is not None and key.expires is not None:
        # The client has proved that it has this key, so it may learn what became of it.
        words = f"This key expired at {shown_time(key.expires)}; ask your operator for another one."
        return "key_expired", words, INVALID
    if sent_key(headers):
        return (
            "key_unknown",
            "This key is not known here; ask your operator for one, or whether it was revoked.",
            INVALID,
        )
    if b"authorization" in headers:
        return "key_missing", "The header Authorization has no key in a form that is understood here: " + HOW, "Bearer"
    return "key_missing", "A key is needed, and none was sent: " + HOW, "Bearer"
