# SPDX-License-Identifier: Apache-2.0
"""The form of the job API's answers: ``{logId, code, msg, data}``, errors included.

The SDKs take 400 for "wrong parameters", 429 for "come back later", and read ``msg`` or ``errorMsg``
(`paddleocr` 3.7, `_api_client/_core.py`); other paths of this service have their own table in ``http_errors``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute

from docparser import errors as parser_errors
from docparser.errors import ParserError
from docparser.http_errors import STATUS as GENERAL_STATUS
from docparser.http_errors import describe_validation_error, error_body, new_log_id
from docparser.jobs import errors

STATUS: dict[type[ParserError], int] = {
    errors.InvalidJob: 400,
    errors.NoResultYet: 409,
    errors.JobNotFound: 404,
    errors.LinkExpired: 403,
    errors.KeyReused: 422,
    errors.QueueFull: 429,
    errors.StorageFull: 507,
    errors.StorageDamaged: 500,
    parser_errors.InvalidRequest: 400,
    parser_errors.InvalidDocument: 400,
}


class JobRoute(APIRoute):
    """Turns what its endpoint raises into the job API's errors."""

    def get_route_handler(self) -> Callable:
        handle = super().get_route_handler()

        async def handle_named(request: Request) -> Response:
            try:
                return await handle(request)
            except ParserError as exc:
                return error(exc)
            except RequestValidationError as exc:
                words = "; ".join(describe_validation_error(item) for item in exc.errors()[:5])
                return error(errors.InvalidJob(words))

        return handle_named


def error(exc: ParserError) -> JSONResponse:
    status = STATUS.get(type(exc)) or GENERAL_STATUS.get(type(exc), 500)
    retry = getattr(exc, "retry_after_s", 5 if status == 503 else None)
    body = error_body(status, str(exc)) | {"code": status, "msg": str(exc)}
    return JSONResponse(body, status, headers={"Retry-After": str(retry)} if retry else None)


def answer(data: dict[str, Any], status: int = 200) -> JSONResponse:
    return JSONResponse({"logId": new_log_id(), "code": 0, "msg": "Success", "data": data}, status)
