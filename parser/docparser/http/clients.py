# SPDX-License-Identifier: Apache-2.0
"""Who sends a request, as far as taking turns with others goes, and sharing what all have together."""

from __future__ import annotations

import hashlib

from fastapi import Request
from starlette.types import Scope


def client_of(request: Request) -> str:
    """The client, which takes turns with other clients: the id of its API key. Without keys, a client is told from
    others by its address and the token that it may send."""
    key = getattr(request.state, "key_id", "")
    if key:
        return str(key)
    token = hashlib.sha256(request.headers.get("authorization", "").encode()).hexdigest()[:12]
    return f"{request.client.host if request.client else ''} {token}"


def holder_of(scope: Scope) -> str:
    """The client whose share of places and bytes a request takes: the id of its key, else its address. The token that
    it may send without keys does not count: it can be made up anew for each request."""
    return str(scope["state"]["key_id"] or (scope["client"][0] if scope.get("client") else ""))
