# SPDX-License-Identifier: Apache-2.0
"""``POST /v1/chat/completions`` and ``GET /v1/models``: a document in, the Markdown of its pages out."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from docparser.contract.answers import Report
from docparser.contract.chat import MAX_VALUES, ChatCompletion, ChatCompletionChunk, ChatRequest, ModelEntry, ModelList
from docparser.contract.schemas import ParseOptions
from docparser.errors import InvalidRequest, ModelNotFound, ParserError
from docparser.http.answers import EVENT_STREAM, Stream, wait_for
from docparser.http.dialects.openai_completion import Arrived, ChatReading, Completion, event
from docparser.http.errors import SafeJSON, openai_error, status_of
from docparser.http.examples import CHAT_REQUEST
from docparser.http.gate import client_of, pages_of
from docparser.http.openapi import TOOK_TOO_LONG, as_text, example_body, shows
from docparser.http.strict_reading import StrictRoute, document_in, source_of
from docparser.logs import request_id
from docparser.models.served_model import ServedModel
from docparser.parsing.document_pages import Early
from docparser.parsing.result import ParseResult

router = APIRouter(prefix="/v1", tags=["openai"], default_response_class=Response)
TEXT_ONLY = {"visualize": False, "returnMarkdownImages": False, "outputFormats": None}
BEGAN = int(time.time())
log = logging.getLogger(__name__)


class ChatRoute(StrictRoute):
    most = MAX_VALUES


reading = APIRouter(prefix="/v1", tags=["openai"], route_class=ChatRoute, default_response_class=Response)

NO_MODEL = {"description": "No such model; error.message has the names."}
COMPLETION: dict[int | str, dict[str, Any]] = {
    200: shows(
        "The completion, or with `stream` its chunks. `docparser`, here and in the chunk with the finish_reason, is "
        "that of /layout-parsing. `usage` counts the VLM's tokens over all blocks.",
        ChatCompletion,
        other={
            "text/event-stream": as_text(
                "Chunks, one in each `data`; the last `data` is `[DONE]`.", ChatCompletionChunk
            )
        },
    ),
    404: NO_MODEL,
    504: TOOK_TOO_LONG,
}


@router.get(
    "/models", operation_id="listModels", summary="Models", responses={200: shows("The loaded model.", ModelList)}
)
async def models(request: Request) -> JSONResponse:
    """The loaded model, by each of its names."""
    listed: ModelList = {"object": "list", "data": [_entry(name) for name in _names(request)]}
    return JSONResponse(listed)


@router.get(
    "/models/{model:path}",  # a model's name may have slashes
    operation_id="getModel",
    summary="A model",
    responses={200: shows("The model.", ModelEntry), 404: NO_MODEL},
)
async def model(model: str, request: Request) -> JSONResponse:
    """The loaded model, by one of its names."""
    _check_model(model, request)
    return JSONResponse(_entry(model))


@reading.post(
    "/chat/completions",
    operation_id="completeChat",
    summary="Read a document by chat",
    responses=COMPLETION,
    openapi_extra=example_body(CHAT_REQUEST),
)
async def chat_completions(body: ChatRequest, request: Request) -> Response:
    """Reads the image or file of the last turn. The answer is its Markdown, page after page; the texts of the messages
    change nothing."""
    _check_model(body.model, request)
    if refusal := body.refusal():
        raise InvalidRequest(refusal)
    where, text = source_of(body.document)
    options = (body.options or ParseOptions()).model_copy(update=TEXT_ONLY)
    state = request.app.state
    state.service.notes(options)

    async def work(arrived: Arrived, early: Early) -> ParseResult:
        async with document_in(request, where, text) as document:
            parse, client, counted = state.service.parse, client_of(request), pages_of(request)
            parts = early if body.stream else None
            return await parse(document, options, request_id.get(), client, counted, arrived, parts)

    document = ChatReading(work, joined=options.restructurePages, limit_s=state.settings.request_timeout_s)
    answer = None
    try:
        answer = await wait_for(request, _answer(body, request, document))
    finally:
        if not isinstance(answer, Stream):
            await document.close()
    return answer


async def _answer(body: ChatRequest, request: Request, document: ChatReading) -> Response:
    """The completion, or its chunks as soon as there is a first text: what fails before that has a status of its own.
    Raises ParserError."""
    completion = Completion(body.model)
    texts = document.texts()
    if not body.stream:
        text = "".join([text async for text in texts])
        return SafeJSON(completion.whole(text, document.result, await _report(body, request, document)))
    first = ""
    async for first in texts:
        if first:
            break

    async def chunks() -> AsyncIterator[bytes]:
        try:
            yield completion.begin()
            async for chunk in completion.texts(first, texts):
                yield chunk
            report = await _report(body, request, document)
            wanted = body.stream_options is not None and bool(body.stream_options.include_usage)
            yield completion.end(document.result, report, with_usage=wanted)
        except ParserError as exc:
            yield event(openai_error(status_of(type(exc), request.url.path), str(exc)))
        except Exception:
            log.exception("a stream failed")
            yield event(openai_error(500, "The parser failed; the operator finds the details in its log."))

    return Stream(chunks(), document.close, "text/event-stream", EVENT_STREAM)


async def _report(body: ChatRequest, request: Request, document: ChatReading) -> Report:
    """``docparser`` of the answer."""
    report = document.result.report(await request.app.state.readiness.models_in_use())
    told = [*report.get("notes", ()), *body.notes()]
    if told:
        report["notes"] = told
    return report


def _names(request: Request) -> tuple[str, ...]:
    served: ServedModel = request.app.state.jobs.model
    return served.own_names


def _check_model(asked: str, request: Request) -> None:
    names = _names(request)
    if asked not in names:
        raise ModelNotFound(f"model: {asked[:80]!r} does not exist here; there is {' or '.join(names)}")


def _entry(name: str) -> ModelEntry:
    return {"id": name, "object": "model", "created": BEGAN, "owned_by": "docparser"}
