# SPDX-License-Identifier: Apache-2.0
"""A result in another format. A child process converts it: the text is a stranger's (decision 0212)."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Annotated, BinaryIO

from fastapi import Query, Request
from fastapi.responses import StreamingResponse

from docparser.convert.document import disposition
from docparser.convert.format_names import (
    FORMATS,
    LEAST_TOKENS,
    MOST_TOKENS,
    SHOWN,
    SUFFIXES,
    Format,
    How,
)
from docparser.documents.spool import Document
from docparser.sandbox.bounds import Bounds
from docparser.sandbox.offload import Offload

JOBS = {"convert": "docparser.convert.job:convert_answer"}
CHUNK = 1 << 18
ChunkTokens = Annotated[
    int,
    Query(alias="chunkTokens", ge=LEAST_TOKENS, le=MOST_TOKENS, description="Of the longest chunk, for format=chunks."),
]


async def converted(
    request: Request,
    answer: Iterable[bytes],
    pages: int,
    name: str,
    format: Format,
    headers: Mapping[str, str],
    source: Document,
    how: How,
    *,
    download: bool = True,
) -> StreamingResponse:
    """``answer``: pieces of the JSON of an answer of /layout-parsing with so many ``pages``; a thread reads them.

    ``name`` is the document's, ``source`` the document. A browser shows the answer, unless it cannot or it is a
    ``download``. Raises BoundExceeded, UnreadableText, SpoolFull.
    """

    def fill(source: BinaryIO) -> None:
        for piece in answer:
            source.write(piece)

    offload: Offload = request.app.state.offload
    bounds = Bounds.of(request.app.state.settings).for_pages(pages)
    args = {"name": name, "format": format, "how": dataclasses.asdict(how), "source": (source.path, source.format)}
    output = await offload.run("convert", args, fill, bounds, f"format: this document cannot be had as {format}")
    try:
        length = output.seek(0, 2)
        output.seek(0)
    except BaseException:
        output.close()
        raise

    async def send() -> AsyncIterator[bytes]:
        with output:
            while piece := output.read(CHUNK):
                yield piece

    named = {"Content-Disposition": disposition(name, SUFFIXES[format])} if download or format not in SHOWN else {}
    headers = {"Content-Length": str(length), **headers, **named}
    return StreamingResponse(send(), media_type=FORMATS[format], headers=headers)
