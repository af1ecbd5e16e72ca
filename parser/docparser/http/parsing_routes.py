# SPDX-License-Identifier: Apache-2.0
"""``POST /layout-parsing`` and ``POST /restructure-pages``; and ``POST /parse``: a file in a form, the result in a
format of choice, for people with curl."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncIterator, Coroutine
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import ValidationError
from starlette.datastructures import FormData, UploadFile

from docparser.contract import strict_json
from docparser.contract.answers import ParseAnswer, RestructureAnswer
from docparser.contract.schemas import (
    FileOptions,
    ParseOptions,
    ParseRequest,
    RestructureRequest,
    describe_errors,
    unknown_words,
)
from docparser.convert.names import WITH_PICTURES
from docparser.documents.spool import Document
from docparser.errors import InvalidRequest
from docparser.http.answers import SAFE, InFormat, converted, in_formats, json_answer, report_headers, wait_for
from docparser.http.errors import new_log_id
from docparser.http.examples import PARSE_REQUEST, PARSED, RESTRUCTURE_REQUEST
from docparser.http.gate import client_of, pages_of
from docparser.http.openapi import BINARY, TOOK_TOO_LONG, example_body, form_content, ref, shows
from docparser.http.strict_reading import LONGEST_TEXT, StrictRoute, body_of, check_says_json, field, form_of
from docparser.logs import request_id
from docparser.parsing.result import ParseResult

router = APIRouter(tags=["parsing"], route_class=StrictRoute, default_response_class=Response)
form_router = APIRouter(tags=["parsing"], default_response_class=Response)


@router.post(
    "/layout-parsing",
    operation_id="parseDocument",
    summary="Parse a document",
    responses={200: shows("All pages.", ParseAnswer, PARSED), 504: TOOK_TOO_LONG},
    openapi_extra=example_body(PARSE_REQUEST),
)
async def layout_parsing(body: ParseRequest, request: Request) -> Response:
    """Parses an image or a PDF, every page of it."""
    request.state.log_id = body.logId or new_log_id()
    file = field(request, body.file)

    async def work() -> ParseResult:
        async with request.app.state.intake.from_field(file, body.fileType, body_of(request).charge) as document:
            parse = request.app.state.service.parse
            return await parse(document, body, request_id.get(), client_of(request), pages_of(request))

    return await _answer(request, work())


# Whole documents come back, so a child process reads the body; FastAPI would do it in the event loop.
PAGES_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": ref(RestructureRequest), "example": RESTRUCTURE_REQUEST}},
    }
}


@form_router.post(
    "/restructure-pages",
    operation_id="restructurePages",
    summary="Join pages that were parsed",
    responses={200: shows("All pages.", RestructureAnswer), 504: TOOK_TOO_LONG},
    openapi_extra=PAGES_BODY,
)
async def restructure_pages(request: Request) -> Response:
    """Joins tables that cross pages, and levels titles, over pages that were parsed before."""
    request.state.log_id = new_log_id()
    body = body_of(request)
    if not body.size:
        raise InvalidRequest("body: Field required")
    check_says_json(request)
    body.charge(body.size * 3)  # here, and on its way to the child
    text = await body.read()
    work = request.app.state.service.restructure(text, client_of(request), functools.partial(_name, request))
    return await _answer(request, work)


def _name(request: Request, log_id: str) -> None:
    request.state.log_id = log_id


async def _answer(request: Request, work: Coroutine[Any, Any, ParseResult]) -> Response:
    result = await wait_for(request, work)
    return json_answer(result, request.state.log_id, await request.app.state.readiness.models_in_use())


PARTS = ("file", "options")
OPTIONS = {"type": "string", "maxLength": LONGEST_TEXT, "description": "Options of /layout-parsing as JSON."}
FORM_BODY = {"requestBody": {"required": True, "content": form_content(["file"], file=BINARY, options=OPTIONS)}}


@form_router.post(
    "/parse",
    operation_id="parseFile",
    summary="Parse a file, in a format",
    responses={
        200: in_formats("The document in the format that was asked for.", ParseAnswer),
        504: TOOK_TOO_LONG,
    },
    openapi_extra=FORM_BODY,
)
async def parse(
    request: Request,
    wanted: Annotated[InFormat, Query()],
) -> Response:
    """Parses one file. `curl -sF file=@page.png http://127.0.0.1:8080/parse` prints its Markdown."""
    request.state.log_id = new_log_id()
    # Escaped Markdown is written from the blocks, which have no paths of pictures.
    pictures = wanted.format in WITH_PICTURES or wanted.escapeMarkdown
    async with _upload(request, pictures) as (name, options, document):
        parse = request.app.state.service.parse
        parsing = parse(document, options, request_id.get(), client_of(request), pages_of(request))
        result = await wait_for(request, parsing)
        models = await request.app.state.readiness.models_in_use()
        if wanted.format == "json":
            return json_answer(result, request.state.log_id, models, SAFE)
        try:
            _, pieces = result.body(request.state.log_id, models)
            how = wanted.how(join_tables=options.mergeTables, outline=options.relevelTitles)
            work = converted(request, pieces, result.pages, name, wanted.format, document, how, download=False)
            answer = await wait_for(request, work)
            answer.headers.update(report_headers(result.report(models)))
            return answer
        finally:
            result.close()


@contextlib.asynccontextmanager
async def _upload(request: Request, pictures: bool) -> AsyncIterator[tuple[str, ParseOptions, Document]]:
    """The file's name, the options, and the document, which exists as long as the context. Raises InvalidRequest."""
    async with contextlib.AsyncExitStack() as stack:
        async with form_of(request, max_fields=10) as form:
            file = form.get("file")
            if not isinstance(file, UploadFile):
                raise InvalidRequest(
                    "file: missing; send multipart/form-data with a part `file` that has a filename, like curl -F "
                    "file=@page.png"
                )
            if unknown := [name for name in form if name not in PARTS]:
                raise InvalidRequest(_refusal(unknown[0]))
            defaults = {"visualize": False, "returnMarkdownImages": pictures}
            kind = FileOptions if request.app.state.settings.text_layer == "auto" else ParseOptions
            try:
                options = kind.model_validate(defaults | _options(form))
            except ValidationError as exc:
                raise InvalidRequest(f"options: {describe_errors(exc.errors())}") from None
            document = await stack.enter_async_context(request.app.state.intake.from_upload(file.file))
        yield file.filename or "document", options, document


def _refusal(name: str) -> str:
    """Why a field of the form is refused, and where it belongs if it is known elsewhere."""
    if name in InFormat.model_fields:
        return f"{name}: no such field here; it belongs into the address: /parse?{name}=..."
    if name in ParseOptions.model_fields:
        return f'{name}: no such field here; it is an option, and belongs into options: options={{"{name}": ...}}'
    return unknown_words(name, PARTS, "field")


def _options(form: FormData) -> dict[str, Any]:
    text = form.get("options") or "{}"
    try:
        options = strict_json.loads(text) if isinstance(text, str) else None
    except ValueError as exc:
        raise InvalidRequest(f"options: not valid JSON ({exc})") from None
    if not isinstance(options, dict):
        raise InvalidRequest("options: expected a JSON object with options of /layout-parsing")
    return options
