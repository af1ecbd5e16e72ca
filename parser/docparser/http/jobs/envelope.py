# SPDX-License-Identifier: Apache-2.0
"""The job API's answers and errors: ``{logId, code, msg, data}``.

The SDKs take 400 for "wrong parameters", 429 for "come back later", and read ``msg`` or ``errorMsg``
(`paddleocr` 3.7, `_api_client/_core.py`); other paths of this service have their own table in ``http.errors``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute

from docparser import errors
from docparser.contract.validation import describe_errors
from docparser.errors import ParserError
from docparser.http.errors import STATUS as GENERAL_STATUS
from docparser.http.errors import SafeJSON, error_body, extras, new_log_id
from docparser.http.jobs.submission import is_json
from docparser.http.strict_route import StrictRequest

STATUS: dict[type[ParserError], int] = {
    errors.InvalidJob: 400,
    errors.NoResultYet: 409,
    errors.JobNotFound: 404,
    errors.LinkExpired: 403,
    errors.KeyReused: 422,
    errors.QueueFull: 429,
    errors.DataDirFull: 507,
    errors.StorageDamaged: 500,
    errors.InvalidRequest: 400,
    errors.InvalidDocument: 400,
}


class JobRoute(APIRoute):
    """A route that turns errors of its endpoint into the job API's form."""

    def get_route_handler(self) -> Callable:
        handle = super().get_route_handler()

        async def handle_named(request: Request) -> Response:
            try:
                strict = StrictRequest(request.scope, request.receive)
                if is_json(request):
                    await strict.read("fileUrl")
                return await handle(strict)
            except ParserError as exc:
                return error(exc)
            except RequestValidationError as exc:
                return error(errors.InvalidJob(describe_errors(exc.errors())))

        return handle_named


def error(exc: ParserError) -> JSONResponse:
    known = GENERAL_STATUS | STATUS
    status = next((known[kind] for kind in type(exc).__mro__ if kind in known), 500)
    headers, more = extras(exc, status)
    return SafeJSON(error_body(status, str(exc)) | {"code": status, "msg": str(exc)} | (more or {}), status, headers)


def answer(data: dict[str, Any], status: int = 200) -> JSONResponse:
    return SafeJSON({"logId": new_log_id(), "code": 0, "msg": "Success", "data": data}, status)
