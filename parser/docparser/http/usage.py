# SPDX-License-Identifier: Apache-2.0
"""``GET /usage``: what the client's key may do, and what it has used."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request, Response

from docparser.clients.keys import shown_time
from docparser.http.errors import SafeJSON, new_log_id

router = APIRouter(tags=["health"])


@router.get("/usage", response_class=Response, responses={200: {"content": {"application/json": {}}}})
async def usage(request: Request) -> Response:
    """The key's `name`, `expires`, and its `quotas` with `limit`, `used` and `resets`; `name` is null where no key is
    needed."""
    client = request.state.key_id
    state = request.app.state
    key = state.keys.client(client) if client else None
    result: dict = {"name": None, "expires": None, "quotas": []}
    if key is not None:
        result["name"] = key.name
        result["expires"] = shown_time(key.expires) if key.expires is not None else None
        result["quotas"] = await asyncio.to_thread(state.allowance.report, key)
    return SafeJSON({"logId": new_log_id(), "errorCode": 0, "errorMsg": "Success", "result": result})
