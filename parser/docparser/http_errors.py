# SPDX-License-Identifier: Apache-2.0
"""Every error leaves as ``{logId, errorCode, errorMsg}`` with errorCode equal to the HTTP status."""

from __future__ import annotations

import logging
import re
import uuid

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from docparser import errors

log = logging.getLogger(__name__)

STATUS: dict[type[errors.ParserError], int] = {
    errors.InvalidRequest: 422,
    errors.InvalidDocument: 422,
    errors.DocumentTooLarge: 413,
    errors.Unauthorized: 401,
    errors.Busy: 429,
    errors.NotReady: 503,
    errors.VlmUnavailable: 503,
    errors.StorageFull: 503,
    errors.PageTimeout: 504,
    errors.RequestTimeout: 504,
    errors.WorkerLost: 422,  # what ends two processes is the page's doing
    errors.Abandoned: 500,
    errors.InternalError: 500,
}

PHRASES = {
    404: "There is no {path} here; the API is described at /docs.",
    405: "{method} is not allowed on {path}; allowed: {allow}.",
}
# What pydantic puts into a location for each alternative of a union type.
UNION_TAG = re.compile(r"(constrained-|function-|dict\[|list\[|tuple\[|literal\[)")


def new_log_id() -> str:
    return str(uuid.uuid4())


def error_body(status: int, message: str, log_id: str | None = None) -> dict:
    return {"logId": log_id or new_log_id(), "errorCode": status, "errorMsg": message}


def error_response(status: int, message: str, log_id: str | None = None, headers: dict | None = None) -> JSONResponse:
    return JSONResponse(error_body(status, message, log_id), status_code=status, headers=headers)


def describe_validation_error(error: dict) -> str:
    """One line from one of pydantic's error dictionaries: where, what, and the value if it is short."""
    if error["type"] == "json_invalid":
        return (
            f"body: not valid JSON ({error.get('ctx', {}).get('error', error['msg'])} at character {error['loc'][-1]})"
        )
    where = ".".join(str(part) for part in error["loc"] if part != "body" and not UNION_TAG.match(str(part))) or "body"
    message = error["msg"].removeprefix("Value error, ")
    value = error.get("input")
    if error["type"] == "missing" or isinstance(value, (dict, list)):
        return f"{where}: {message}"
    shown = repr(value)
    return f"{where}: {message}; got {shown if len(shown) <= 80 else shown[:77] + '...'}"


def _log_id_of(body: object) -> str | None:
    log_id = body.get("logId") if isinstance(body, dict) else None
    return log_id if isinstance(log_id, str) and log_id else None


async def on_parser_error(request: Request, exc: errors.ParserError) -> JSONResponse:
    status = STATUS.get(type(exc), 500)
    headers = {"Retry-After": "5"} if status == 503 else None
    return error_response(status, str(exc), getattr(request.state, "log_id", None), headers)


async def on_validation_error(request: Request, exc: RequestValidationError) -> JSONResponse:
    message = "; ".join(describe_validation_error(error) for error in exc.errors()[:5])
    return error_response(422, message, _log_id_of(exc.body))


async def on_http_error(request: Request, exc: HTTPException) -> JSONResponse:
    headers = dict(exc.headers or {})
    values = {"path": request.url.path, "method": request.method, "allow": headers.get("Allow", "see /docs")}
    message = PHRASES.get(exc.status_code, str(exc.detail)).format(**values)
    return error_response(exc.status_code, message, headers=headers)


async def on_unexpected_error(request: Request, exc: Exception) -> JSONResponse:
    log_id = getattr(request.state, "log_id", None) or new_log_id()
    log.error("request %s failed", log_id, exc_info=exc)
    return error_response(500, "The parser failed; the operator finds the details in its log under logId.", log_id)


def install(app: FastAPI) -> None:
    app.add_exception_handler(errors.ParserError, on_parser_error)
    app.add_exception_handler(RequestValidationError, on_validation_error)
    app.add_exception_handler(HTTPException, on_http_error)
    app.add_exception_handler(Exception, on_unexpected_error)
