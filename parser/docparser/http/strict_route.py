# SPDX-License-Identifier: Apache-2.0
"""Routes whose JSON bodies are read by ``contract.strict_json``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from docparser.contract import strict_json


class StrictRequest(Request):
    async def json(self) -> Any:
        try:
            return strict_json.loads(await self.body())
        except strict_json.TooDeep as exc:
            raise HTTPException(400, f"body: {exc}") from None


class StrictRoute(APIRoute):
    def get_route_handler(self) -> Callable:
        handle = super().get_route_handler()

        async def handle_strictly(request: Request) -> Response:
            return await handle(StrictRequest(request.scope, request.receive))

        return handle_strictly
