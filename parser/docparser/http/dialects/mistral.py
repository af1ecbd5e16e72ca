# SPDX-License-Identifier: Apache-2.0
"""Mistral's OCR API: ``POST /v1/ocr``, and ``/v1/files`` for those of its clients that upload a document first and name
it by a later request."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import re
import secrets
import shutil
import time
from collections.abc import AsyncIterator
from typing import BinaryIO

from fastapi import APIRouter, Request, Response
from starlette.datastructures import UploadFile

from docparser.clients.shares import Shares
from docparser.contract.ocr import OcrAnswer, OcrFile, OcrFileDeleted, OcrFileUrl, OcrRequest
from docparser.documents.spool import CHUNK, Document, filled
from docparser.errors import FileNotFound, InvalidRequest, ModelNotFound, TooBusy
from docparser.http.answers import read_as
from docparser.http.errors import SafeJSON
from docparser.http.examples import OCR_REQUEST
from docparser.http.gate import holder_of
from docparser.http.jobs.requests import base_url
from docparser.http.openapi import BINARY, TOOK_TOO_LONG, example_body, form_content, shows
from docparser.http.strict_reading import StrictRoute, document_in, form_of, named, source_of
from docparser.models.served_model import ServedModel
from docparser.settings import Settings

KEPT_S = 3600
LEAST = 4 << 20  # bytes that a file counts at least: each keeps a descriptor open


@dataclasses.dataclass(frozen=True)
class UploadedFile:
    id: str
    name: str
    size: int  # bytes
    created: float
    owner: str
    path: str  # requests that read it at the same time open it each for itself


class UploadedFiles:
    """All files together may have as many bytes as the bodies of requests (PARSER_MAX_BODIES_MIB), one client half of
    them. For one event loop."""

    def __init__(self, settings: Settings) -> None:
        self._folder = settings.spool_dir
        self._shares = Shares(settings.max_bodies_mib << 20)
        self._files: dict[str, UploadedFile] = {}
        self._kept: dict[str, contextlib.ExitStack] = {}

    async def keep(self, content: BinaryIO, name: str, *, owner: str, holder: str) -> UploadedFile:
        """``owner`` alone may use the file, ``holder``'s share of bytes it takes. Raises TooBusy, SpoolFull."""
        size = content.seek(0, 2)
        content.seek(0)
        counted = max(size, LEAST)
        if self._shares.bound(holder, counted) is not None:
            raise TooBusy(
                f"The files that wait leave no room for {counted} bytes (PARSER_MAX_BODIES_MIB is "
                f"{self._shares.most >> 20}; one client has {self._shares.own >> 20}). Delete files that were read."
            )
        with contextlib.ExitStack() as stack:
            self._shares.take(holder, counted)
            stack.callback(self._shares.give_back, holder, counted)
            context = filled(self._folder, lambda file: shutil.copyfileobj(content, file, CHUNK))
            file = await asyncio.to_thread(stack.enter_context, context)
            kept = UploadedFile(secrets.token_hex(16), name, size, time.time(), owner, file.name)
            timer = asyncio.get_running_loop().call_later(KEPT_S, self._remove, kept.id)
            stack.callback(timer.cancel)
            self._files[kept.id] = kept
            self._kept[kept.id] = stack.pop_all()
        return kept

    def get(self, id: str, owner: str) -> UploadedFile:
        """Raises FileNotFound."""
        found = self._files.get(id)
        if found is None or found.owner != owner:
            raise FileNotFound(
                f"file_id: {id[:80]!r} is no file here; a file is gone when it is deleted, after an hour, and when the "
                "service starts again. Upload it again."
            )
        return found

    def delete(self, id: str, owner: str) -> None:
        """Raises FileNotFound."""
        self._remove(self.get(id, owner).id)

    def _remove(self, id: str) -> None:
        self._files.pop(id, None)
        if (stack := self._kept.pop(id, None)) is not None:
            stack.close()

    def close(self) -> None:
        for id in list(self._files):
            self._remove(id)


router = APIRouter(prefix="/v1", tags=["mistral"], route_class=StrictRoute, default_response_class=Response)
form_router = APIRouter(prefix="/v1/files", tags=["mistral"], default_response_class=Response)

# Pictures as `![](path)`, which become `![id](id)`; what is drawn over pages has no place in the answer.
OPTIONS = {"visualize": False, "prettifyMarkdown": False}
THEIR_MODELS = re.compile(r"mistral-ocr(-|\Z)")  # clients have such a name built in
OUR_FILE = re.compile(r"/v1/files/([0-9a-f]{32})/content")
POINTS_PER_INCH = 72
NO_FILE = {"description": "There is no such file, or it is another key's."}
FORM = {
    "requestBody": {
        "required": True,
        "content": form_content(["file"], file=BINARY, purpose={"type": "string", "enum": ["ocr"], "default": "ocr"}),
    }
}


@router.post(
    "/ocr",
    operation_id="ocr",
    summary="Read a document by Mistral's API",
    responses={
        200: shows("The pages.", OcrAnswer),
        404: {"description": "No such model, or no such file."},
        504: TOOK_TOO_LONG,
    },
    openapi_extra=example_body(OCR_REQUEST),
)
async def ocr(body: OcrRequest, request: Request) -> Response:
    """Reads an image or a PDF: for each page its Markdown, its pictures and its size."""
    served: ServedModel = request.app.state.jobs.model
    _check_model(body.model, served)
    if refusal := body.refusal():
        raise InvalidRequest(refusal)

    args = {
        "name": "document",
        "model": served.served_name,
        "dpi": round(POINTS_PER_INCH * request.app.state.settings.pdf_scale),
        "wanted": body.model_dump(exclude={"model", "document", "pages"}, exclude_none=True),
    }
    return await read_as(request, _document(body, request), OPTIONS, "mistral", args, body.selected)


def _check_model(asked: str | None, served: ServedModel) -> None:
    if asked is not None and asked not in served.own_names and not THEIR_MODELS.match(asked):
        names = " or ".join(("mistral-ocr-latest", *served.own_names))
        raise ModelNotFound(f"model: {asked[:80]!r} does not exist here; there is {names}")


@contextlib.asynccontextmanager
async def _document(body: OcrRequest, request: Request) -> AsyncIterator[Document]:
    """Raises InvalidRequest, InvalidDocument, DocumentTooLarge, FileNotFound, SpoolFull."""
    where, text = source_of(body.source)
    ours = OUR_FILE.fullmatch(text.removeprefix(base_url(request)))
    if where != "document.file_id" and not ours:
        async with document_in(request, where, text) as document:
            yield document
        return
    kept = _uploads(request).get(ours[1] if ours else text, request.state.key_id)
    with named(where), open(kept.path, "rb") as content:  # a deletion does not take it away from here
        async with request.app.state.intake.from_upload(content) as document:
            content.close()
            yield document


@form_router.post(
    "",
    operation_id="uploadFile",
    summary="Upload a file for OCR",
    responses={200: shows("The file is kept for an hour.", OcrFile)},
    openapi_extra=FORM,
)
async def upload(request: Request) -> Response:
    """Keeps a file for `POST /v1/ocr`, until it is deleted, for an hour at most."""
    async with form_of(request, max_fields=10) as form:
        file, purpose = form.get("file"), form.get("purpose", "ocr")
        if purpose != "ocr":
            raise InvalidRequest(f"purpose: {str(purpose)[:40]!r} is not supported; expected 'ocr'")
        if not isinstance(file, UploadFile) or not file.size:
            raise InvalidRequest(
                "file: missing or empty; send multipart/form-data with a part `file` that has a filename"
            )
        kept = await _uploads(request).keep(
            file.file,
            (file.filename or "document")[:200],
            owner=request.state.key_id,
            holder=holder_of(request.scope),
        )
    return SafeJSON(_described(kept))


@form_router.get(
    "/{file_id}",
    operation_id="getFile",
    summary="An uploaded file",
    responses={200: shows("The file.", OcrFile), 404: NO_FILE},
)
async def file(file_id: str, request: Request) -> Response:
    """What is known of a file."""
    return SafeJSON(_described(_uploads(request).get(file_id, request.state.key_id)))


@form_router.get(
    "/{file_id}/url",
    operation_id="getFileUrl",
    summary="An uploaded file's address",
    responses={200: shows("The address.", OcrFileUrl), 404: NO_FILE},
)
async def file_url(file_id: str, request: Request) -> Response:
    """The address by which `POST /v1/ocr` knows the file. Nobody can fetch it."""
    kept = _uploads(request).get(file_id, request.state.key_id)
    return SafeJSON({"url": f"{base_url(request)}/v1/files/{kept.id}/content"})


@form_router.delete(
    "/{file_id}",
    operation_id="deleteFile",
    summary="Delete an uploaded file",
    responses={200: shows("It is gone.", OcrFileDeleted), 404: NO_FILE},
)
async def delete(file_id: str, request: Request) -> Response:
    """Deletes a file. A document that is being read is not disturbed."""
    _uploads(request).delete(file_id, request.state.key_id)
    return SafeJSON({"id": file_id, "object": "file", "deleted": True})


def _uploads(request: Request) -> UploadedFiles:
    return request.app.state.uploads


def _described(kept: UploadedFile) -> OcrFile:
    return {
        "id": kept.id,
        "object": "file",
        "bytes": kept.size,
        "created_at": int(kept.created),
        "expires_at": int(kept.created) + KEPT_S,
        "filename": kept.name,
        "purpose": "ocr",
        "sample_type": "ocr_input",
        "source": "upload",
        "deleted": False,
    }
