# SPDX-License-Identifier: Apache-2.0
"""How a route waits for a result and sends it: as JSON, or in another format.

A child process converts a result, because its text is a stranger's (decision 0212).
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from fastapi import Request, Response
from fastapi.responses import StreamingResponse
from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from docparser.contract.answers import Chunk, DocumentNotes, ModelsInUse
from docparser.contract.schemas import Parameters, ParseOptions
from docparser.convert.names import (
    DEFAULT_TOKENS,
    FORMATS,
    LEAST_TOKENS,
    MOST_TOKENS,
    SHOWN,
    SUFFIXES,
    Format,
    How,
    disposition,
)
from docparser.documents.spool import Document
from docparser.errors import InvalidRequest, RequestTimeout
from docparser.http.gate import client_of, holder_of, pages_of
from docparser.http.openapi import BINARY, as_text, ref, shows
from docparser.logs import request_id
from docparser.parsing.result import ParseResult
from docparser.sandbox.offload import Offload
from docparser.sandbox.process import Bounds

T = TypeVar("T")
CHECK_S = 0.25  # between two checks whether the client is still connected
CLIENT_GONE = 499
JOBS = {
    "convert": "docparser.convert.formats:convert_answer",
    "draw": "docparser.documents.decoder:draw",
    "docling": "docparser.convert.docling:convert_answer",
    "mistral": "docparser.convert.mistral:convert_answer",
}
# A stranger may have written the document, so a browser must run nothing of its result, whatever it takes it for.
SAFE = {"Content-Security-Policy": "default-src 'none'; sandbox"}
PARTIAL, NOTES = "Document-Partial", "Document-Notes"
MOST_RANGES, LONGEST_NOTES = 100, 2048  # of pages, and bytes of sentences, in a header; proxies bound heads
CHUNK = 1 << 18
EVENT_STREAM = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}  # headers: nobody on the way keeps it
TOO_LARGE = "document: its pages do not fit into one answer"


class InFormat(Parameters):
    """The parameters of an answer in a format."""

    format: Format = "md"
    chunkTokens: int = Field(
        default=DEFAULT_TOKENS,
        ge=LEAST_TOKENS,
        le=MOST_TOKENS,
        description="Of the longest chunk, for format=chunks.",
    )
    escapeMarkdown: bool = Field(
        default=False,
        description="Whether signs that were printed, as in `<name>` or `2*3*4`, are escaped in Markdown (format=md "
        "and zip). PaddleOCR's own Markdown escapes nothing.",
    )

    def how(self, *, join_tables: bool, outline: bool) -> How:
        return How(
            chunk_tokens=self.chunkTokens,
            join_tables=join_tables,
            escape_markdown=self.escapeMarkdown,
            outline=outline,
        )


def in_formats(words: str, json: type) -> dict[str, Any]:
    """A response in any of the formats, for the OpenAPI description; ``json`` is the format of that name. Generated
    clients take the first media type for the usual one."""
    schemas = {
        "md": as_text("Markdown."),
        "json": ref(json),
        "html": as_text("One page with its pictures inside."),
        "chunks": as_text("JSON lines.", Chunk),
    }
    content = {kind.partition(";")[0]: schemas.get(name, BINARY) for name, kind in FORMATS.items()}
    return shows(words, other=content, headers=("Content-Disposition", PARTIAL, NOTES))


def report_headers(report: DocumentNotes, missing: Iterable[int] = ()) -> dict[str, str]:
    """What only JSON has room for: the pages where something is missing or cut, what else there is to say of pages
    (that one is blank, for instance), and options without effect. ``missing``: pages that the report does not name."""
    numbers = {page["page"] for page in report["pages"] if "error" in page or "blocks" in page} | set(missing)
    headers = {PARTIAL: _ranges(sorted(numbers))} if numbers else {}
    of_pages = (f"page {page['page']}: {note['message']}" for page in report["pages"] for note in page.get("notes", ()))
    said = [*report.get("notes", ()), *of_pages]
    ends = itertools.accumulate(len(json.dumps(sentence)) + len(", ") for sentence in said)
    fit = sum(end <= LONGEST_NOTES for end in ends)
    return headers | ({NOTES: json.dumps(said[:fit] + ["..."][: len(said) > fit])} if said else {})


def _ranges(numbers: Sequence[int]) -> str:
    """As a job's ``pageRanges``: "3,9-14"; after so many of them "..."."""
    runs = [list(run) for _, run in itertools.groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])]
    said = [f"{run[0][1]}" + (f"-{run[-1][1]}" if len(run) > 1 else "") for run in runs]
    return ",".join(said[:MOST_RANGES] + ["..."][: len(said) > MOST_RANGES])


async def wait_for(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The work's result.

    When the client leaves, and at the time limit, the work is cancelled with all its pages. Raises RequestTimeout,
    HTTPException (CLIENT_GONE), and whatever the work raises.
    """
    limit_s = request.app.state.settings.request_timeout_s
    deadline = time.monotonic() + limit_s
    task = asyncio.create_task(work)
    try:
        while not (await asyncio.wait([task], timeout=CHECK_S))[0]:
            if await request.is_disconnected():
                raise HTTPException(CLIENT_GONE, "The client has left.")
            if time.monotonic() > deadline:
                raise RequestTimeout(f"The document was given up after {limit_s:.0f} s (PARSER_REQUEST_TIMEOUT_S).")
        return task.result()
    finally:
        task.cancel()


class Stream(StreamingResponse):
    """Calls ``end`` when it ends, also where the client leaves before the first piece."""

    def __init__(
        self,
        pieces: AsyncIterator[bytes],
        end: Callable[[], Awaitable[None] | None],
        media_type: str,
        headers: Mapping[str, str],
    ) -> None:
        super().__init__(pieces, media_type=media_type, headers=headers)
        self._end = end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            if (ending := self._end()) is not None:
                await ending


def json_answer(
    result: ParseResult, log_id: str, models: ModelsInUse, headers: Mapping[str, str] | None = None
) -> Stream:
    """The answer in pieces, as they are read from the result; closes the result at its end."""
    length, pieces = result.body(log_id, models)

    async def send() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    headers = {"Content-Length": str(length), **(headers or {})}
    return Stream(send(), result.close, "application/json", headers)


async def converted(
    request: Request,
    answer: Iterable[bytes],
    pages: int,
    name: str,
    format: Format,
    source: Document,
    how: How,
    *,
    files: Collection[str] = (),
    download: bool = True,
) -> Stream:
    """``answer``: pieces of the JSON of an answer of /layout-parsing with so many ``pages``; a thread reads them. Then
    ``files`` holds the paths of its pictures that are files, all in a folder that holds nothing else's.

    ``name`` is the document's, ``source`` the document. A browser shows the answer, unless it cannot or it is a
    ``download``. Raises BoundExceeded, UnreadableText, SpoolFull.
    """

    args = {"name": name, "format": format, "how": dataclasses.asdict(how), "source": (source.path, source.format)}
    opened = [source.path] if format == "pdf" and await asyncio.to_thread(os.path.isfile, source.path) else []
    what = f"format: this document is not available as {format}"
    named = {"Content-Disposition": disposition(name, SUFFIXES[format])} if download or format not in SHOWN else {}
    return await from_child(
        request, "convert", args, answer, pages, what, FORMATS[format], named, opened=opened, files=files
    )


async def from_child(
    request: Request,
    job: str,
    args: dict[str, Any],
    answer: Iterable[bytes],
    pages: int,
    what: str,
    media_type: str,
    headers: Mapping[str, str] | None = None,
    *,
    opened: Collection[str] = (),
    files: Collection[str] = (),
) -> Stream:
    """What a child process makes of ``answer``; ``job`` is one of JOBS, ``what`` begins its refusal. It opens the files
    ``opened``, and the folder of ``files``. Raises BoundExceeded, UnreadableText, SpoolFull."""

    def fill(sink: BinaryIO) -> list[str]:
        for piece in answer:
            sink.write(piece)
        return [*opened, os.path.commonpath(files)] if files else [*opened]

    offload: Offload = request.app.state.offload
    bounds = Bounds.of(request.app.state.settings).for_pages(pages)
    output = await offload.run(job, args, fill, bounds, what, holder_of(request.scope))
    return sent(output, media_type, headers or {})


def sent(output: BinaryIO, media_type: str, headers: Mapping[str, str]) -> Stream:
    """What is left of ``output``, piece by piece; closes it at the end."""
    try:
        begin = output.tell()
        length = output.seek(0, os.SEEK_END) - begin
        output.seek(begin)
    except BaseException:
        output.close()
        raise

    async def send() -> AsyncIterator[bytes]:
        while piece := output.read(CHUNK):
            yield piece

    return Stream(send(), output.close, media_type, {"Content-Length": str(length), **SAFE, **headers})


async def read_as(
    request: Request,
    document: AbstractAsyncContextManager[Document],
    options: dict[str, Any],
    job: str,
    args: dict[str, Any],
    select: Callable[[int], Sequence[int]],
) -> Response:
    """The document is read as for /layout-parsing, and the answer is what ``job`` of JOBS makes of the result with
    ``args``; added are ``numbers`` of the pages, ``size`` of the document in bytes, and ``seconds``. ``select`` may
    raise ValueError. Raises ParserError."""

    def selected(count: int) -> Sequence[int]:
        try:
            return select(count)
        except ValueError as exc:
            raise InvalidRequest(str(exc)) from None

    async def work() -> Stream:
        state, began = request.app.state, time.monotonic()
        async with document as found:
            size = Path(found.path).stat().st_size
            result = await state.service.parse(
                found,
                ParseOptions.model_validate(options),
                request_id.get(),
                client_of(request),
                pages_of(request),
                select=selected,
            )
        try:
            told = {"numbers": result.numbers, "size": size, "seconds": round(time.monotonic() - began, 3), **args}
            _, pieces = result.body("", await state.readiness.models_in_use())
            return await from_child(request, job, told, pieces, result.pages, TOO_LARGE, "application/json")
        finally:
            result.close()

    return await wait_for(request, work())
