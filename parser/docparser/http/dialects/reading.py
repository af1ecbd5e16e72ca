# SPDX-License-Identifier: Apache-2.0
"""How a dialect answers a request that waits: the document is read as for /layout-parsing, and a child process writes
the answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from fastapi import Request, Response
from fastapi.responses import StreamingResponse

from docparser.contract.schemas import ParseOptions
from docparser.documents.spool import Document
from docparser.errors import InvalidRequest
from docparser.http.answers import from_child, wait_for
from docparser.http.gate import client_of, pages_of
from docparser.logs import request_id

TOO_LARGE = "document: its pages cannot be answered in one piece"


async def read(
    request: Request,
    document: AbstractAsyncContextManager[Document],
    options: dict[str, Any],
    job: str,
    args: dict[str, Any],
    select: Callable[[int], Sequence[int]] = range,
) -> Response:
    """What ``job`` of ``answers.JOBS`` makes of the result with ``args``; added are ``numbers`` of the pages, ``size``
    of the document in bytes, and ``seconds``. ``select`` may raise ValueError. Raises ParserError."""

    def selected(count: int) -> Sequence[int]:
        try:
            return select(count)
        except ValueError as exc:
            raise InvalidRequest(str(exc)) from None

    async def work() -> StreamingResponse:
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
