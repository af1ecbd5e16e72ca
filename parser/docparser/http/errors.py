# SPDX-License-Identifier: Apache-2.0
"""Errors as answers: ``{logId, errorCode, errorMsg}``, where errorCode is the HTTP status.

STATUS is the one table from errors to statuses. A family of paths may differ from it, and adds the fields that its own
clients read errors from.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import re
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import Match
from starlette.types import Scope

from docparser import errors
from docparser.contract.answers import Error, JobError, OpenAiError, OpenAiReason
from docparser.contract.docling import DoclingError
from docparser.contract.ocr import OcrError
from docparser.contract.schemas import describe_errors, log_id_of
from tool_errors import with_place

log = logging.getLogger(__name__)

STATUS: dict[type[errors.ParserError], int] = {
    errors.InvalidRequest: 422,
    errors.BodyTooComplex: 400,
    errors.InvalidDocument: 422,
    errors.ModelNotFound: 404,
    errors.FileNotFound: 404,
    errors.DocumentTooLarge: 413,
    errors.DocumentTooSlow: 413,
    errors.StepTooSlow: 413,
    errors.BoundExceeded: 413,
    errors.UnreadableText: 422,
    errors.NotReady: 503,
    errors.VlmUnavailable: 503,
    errors.SpoolFull: 503,
    errors.StorageUnavailable: 503,
    errors.PageTimeout: 504,
    errors.RequestTimeout: 504,
    errors.WorkerLost: 422,  # a page that ends two processes is to blame
    errors.Abandoned: 500,
    errors.InternalError: 500,
    errors.QuotaExceeded: 429,
    errors.TooBusy: 429,
    # Of jobs.
    errors.InvalidJob: 400,
    errors.NoResultYet: 409,
    errors.JobNotFound: 404,
    errors.NoOwner: 403,
    errors.LinkRefused: 403,
    errors.KeyReused: 422,
    errors.QueueFull: 429,
    errors.DataDirFull: 507,
    errors.StorageDamaged: 500,
}

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
FIELD = re.compile(r"([A-Za-z_]+(?:\.\w+)*): ")
PHRASES = {
    404: "There is no {path} here; the API is described at /docs.",
    405: "{method} is not allowed on {path}; allowed: {allow}.",
}


def new_log_id() -> str:
    return str(uuid.uuid4())


def success(result: Any, words: str = "Success") -> dict[str, Any]:
    return {"logId": new_log_id(), "errorCode": 0, "errorMsg": words, "result": result}


def error_body(status: int, message: str, log_id: str | None = None) -> Error:
    return {"logId": log_id or new_log_id(), "errorCode": status, "errorMsg": message}


class SafeJSON(JSONResponse):
    """JSON that repeats what a client sent: what is no text in UTF-8 is written as an escape, not an error."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")


def error_response(
    path: str,
    status: int,
    message: str,
    log_id: str | None = None,
    headers: dict | None = None,
    more: dict | None = None,
) -> JSONResponse:
    """With the fields that clients of ``path`` read errors from; ``more`` are further ones."""
    body = {**error_body(status, message, log_id), **family_of(path).fields(status, message), **(more or {})}
    return SafeJSON(body, status, headers)


def early_response(
    scope: Scope, status: int, message: str, headers: dict | None = None, more: dict | None = None
) -> JSONResponse:
    """An error before a route is asked. Whoever still sends a body is not heard, so the connection ends."""
    headers = {"Connection": "close", **(headers or {})}
    return error_response(scope["path"], status, with_place(message), None, headers, more)


def early_error(scope: Scope, exc: errors.ParserError) -> JSONResponse:
    """The same for an error of ours."""
    status = status_of(type(exc), scope["path"])
    return early_response(scope, status, str(exc), *extras(exc, status))


def openai_error(status: int, message: str) -> dict[str, OpenAiReason]:
    """``{error}`` of the OpenAI API. ``param`` is the field that the message begins with."""
    named = FIELD.match(message)
    param = named[1] if named else None
    kind = "server_error" if status >= 500 else "rate_limit_exceeded" if status == 429 else "invalid_request_error"
    code = {401: "invalid_api_key", 429: "rate_limit_exceeded"}.get(status)
    if (status, param) == (404, "model"):
        code = "model_not_found"
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def ocr_error(status: int, message: str) -> dict[str, Any]:
    """The fields of Mistral's errors: those of the OpenAI API, not inside another."""
    return {"object": "error", **openai_error(status, message)["error"]}


@dataclasses.dataclass(frozen=True)
class PathFamily:
    """The paths of one API. ``status`` holds where it differs from STATUS; ``fields`` makes the fields of an error from
    status and message, beside those of every error; ``error`` has all of them; ``headers`` are those of a status."""

    paths: re.Pattern[str]
    status: dict[type[errors.ParserError], int]
    fields: Callable[[int, str], dict[str, Any]]
    error: type[Error]
    headers: Mapping[int, Mapping[str, str]] = dataclasses.field(default_factory=dict)


LIKE_OPENAI = {kind: 400 for kind, status in STATUS.items() if status == 422}
FAMILIES = (
    # The SDKs take 400 for "wrong parameters" and 429 for "come back later", and read `msg` or `errorMsg` (`paddleocr`
    # 3.7, `_api_client/_core.py`).
    PathFamily(
        re.compile(r"/api/v2/|/capacity\Z"),
        {errors.InvalidRequest: 400, errors.InvalidDocument: 400},
        lambda status, message: {"code": status, "msg": message},
        JobError,
    ),
    PathFamily(
        re.compile(r"/v1/(convert|status|result)/"),
        {errors.InvalidJob: 422, errors.NoResultYet: 404},
        lambda status, message: {"detail": message},
        DoclingError,
    ),
    PathFamily(re.compile(r"/v1/(ocr|files)(/|\Z)"), LIKE_OPENAI, ocr_error, OcrError),
    # The OpenAI API says 400 where others say 422. Its packages send what took too long again, unless they are told.
    PathFamily(re.compile(r"/v1/"), LIKE_OPENAI, openai_error, OpenAiError, {504: {"X-Should-Retry": "false"}}),
)
OTHERS = PathFamily(re.compile(""), {}, lambda status, message: {}, Error)


def family_of(path: str) -> PathFamily:
    return next((family for family in FAMILIES if family.paths.match(path)), OTHERS)


def status_of(kind: type[errors.ParserError], path: str) -> int:
    """The status that errors of this class have on ``path``; 500 if the table does not name them."""
    known = STATUS | family_of(path).status
    return next((known[base] for base in kind.__mro__ if base in known), 500)


async def on_parser_error(request: Request, exc: errors.ParserError) -> JSONResponse:
    path = request.url.path
    status = status_of(type(exc), path)
    headers, more = extras(exc, status)
    headers = {**(headers or {}), **family_of(path).headers.get(status, {})}
    return error_response(path, status, with_place(str(exc)), getattr(request.state, "log_id", None), headers, more)


def extras(exc: errors.ParserError, status: int) -> tuple[dict[str, str] | None, dict[str, Any] | None]:
    """Headers of an error's answer, and its fields beside those of every error."""
    retry = getattr(exc, "retry_after_s", 5 if status == 503 else None)
    more = None
    if isinstance(exc, errors.QuotaExceeded):
        more = {"quota": {"name": exc.quota, "limit": exc.limit, "used": exc.used}}
    return {"Retry-After": str(retry)} if retry else None, more


async def on_validation_error(request: Request, exc: RequestValidationError) -> JSONResponse:
    path = request.url.path
    status = status_of(errors.InvalidRequest, path)
    return error_response(path, status, describe_errors(exc.errors()), log_id_of(exc.body))


def allowed(request: Request) -> str:
    """The methods of all routes of the path, for ``Allow``; Starlette names those of the first route."""
    place = {"type": "http", "path": request.scope["path"], "root_path": request.scope.get("root_path", "")}
    matches = {name: [one.matches(place | {"method": name})[0] for one in request.app.routes] for name in METHODS}
    return ", ".join(name for name in METHODS if Match.FULL in matches[name])


async def on_http_error(request: Request, exc: HTTPException) -> JSONResponse:
    headers = dict(exc.headers or {})
    if exc.status_code == 405:
        headers["Allow"] = allowed(request)
    values = {"path": request.url.path, "method": request.method, "allow": headers.get("Allow")}
    phrase = PHRASES.get(exc.status_code)
    message = phrase.format(**values) if phrase else str(exc.detail)
    return error_response(request.url.path, exc.status_code, message, headers=headers)


def unexpected_response(scope: Scope, exc: Exception) -> JSONResponse:
    log_id = scope.get("state", {}).get("log_id") or new_log_id()
    log.error("request %s failed", log_id, exc_info=exc)
    words = "The parser failed; the operator finds the details in its log under logId."
    return error_response(scope["path"], 500, words, log_id)


def install(app: FastAPI) -> None:
    app.exception_handler(errors.ParserError)(on_parser_error)
    app.exception_handler(RequestValidationError)(on_validation_error)
    app.exception_handler(HTTPException)(on_http_error)
