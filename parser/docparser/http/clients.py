# SPDX-License-Identifier: Apache-2.0
"""Who sends a request, as far as taking turns with others goes."""

from __future__ import annotations

import hashlib

from fastapi import Request


def client_of(request: Request) -> str:
    """The client, which takes turns with other clients: the id of its API key. Without keys, a client is told from
    others by its address and the token that it may send."""
    key = getattr(request.state, "key_id", "")
    if key:
        return str(key)
    token = hashlib.sha256(request.headers.get("authorization", "").encode()).hexdigest()[:12]
    return f"{request.client.host if request.client else ''} {token}"
