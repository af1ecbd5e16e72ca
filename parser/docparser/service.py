# SPDX-License-Identifier: Apache-2.0
"""Parsing a request: its document page by page through the pool, then the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

from docparser import source
from docparser.errors import InvalidRequest, ParserError
from docparser.options import PageOptions, answer_options, page_options, restructure_options
from docparser.pool import WorkerPool
from docparser.schemas import ParseRequest, RestructureRequest
from docparser.settings import Settings
from docparser.source import Document
from docparser.tasks import CountPages, JoinClientPages, JoinPages, ParsedPage, ParsePage


class ParseService:
    def __init__(self, settings: Settings, pool: WorkerPool) -> None:
        self._settings = settings
        self._pool = pool

    async def parse(self, request: ParseRequest) -> dict:
        """The ``result`` of ``POST /layout-parsing``. Raises ParserError, with the page if there are several."""
        options = page_options(request, visualize_by_default=self._settings.visualize)
        data, format = await asyncio.to_thread(_decode, request)
        with source.spooled(data, format, self._settings.spool_dir) as document:
            del data
            count = await self._pool.submit(CountPages(document))
            pages = await self._parse_pages(document, count, options)
        _check_answered(pages)
        entries = [page.entry for page in pages]
        if options.restructure is not None:
            frozen = [page.frozen for page in pages]
            texts = await self._pool.submit(JoinPages(frozen, options.answer, options.restructure))
            entries = [text | entry for text, entry in zip(texts, entries, strict=True)]
        for page, entry in zip(pages, entries, strict=True):
            if page.block_failures:
                entry["prunedResult"]["block_failures"] = page.block_failures
        return {"layoutParsingResults": entries, "dataInfo": data_info(document, pages)}

    async def restructure(self, request: RestructureRequest) -> dict:
        """The ``result`` of ``POST /restructure-pages``."""
        if not request.pages:
            raise InvalidRequest("pages: empty; expected the pages of an earlier answer")
        pages = [(page.prunedResult, page.markdownImages or {}) for page in request.pages]
        answer = answer_options(request, visualize=False)
        entries = await self._pool.submit(JoinClientPages(pages, answer, restructure_options(request)))
        return {"layoutParsingResults": entries}

    async def _parse_pages(self, document: Document, count: int, options: PageOptions) -> list[ParsedPage]:
        """All pages in order. A document has at most as many pages in the queue as there are workers, so that the
        documents of several clients take turns."""
        turns = asyncio.Semaphore(self._settings.workers)

        async def parse(index: int) -> ParsedPage:
            async with turns:
                try:
                    return await self._pool.submit(ParsePage(document, index, options))
                except ParserError as exc:
                    if count == 1 or str(exc).startswith("file: page "):
                        raise
                    raise type(exc)(f"page {index + 1} of {count}: {exc}") from None

        try:
            async with asyncio.TaskGroup() as together:
                tasks = [together.create_task(parse(index)) for index in range(count)]
        except ExceptionGroup as group:
            raise group.exceptions[0] from None
        return [task.result() for task in tasks]


def _decode(request: ParseRequest) -> tuple[bytes, str]:
    data = source.decode(request.file)
    return data, source.check_type(data, request.fileType)


def _check_answered(pages: Iterable[ParsedPage]) -> None:
    """A single refused block leaves a gap that the answer names; a document without any answer is refused itself."""
    refused = [failure for page in pages for failure in page.block_failures]
    if refused and not any(page.blocks_answered for page in pages):
        raise InvalidRequest(f"The VLM server refused every block of the document: {refused[0]['message']}")


def data_info(document: Document, pages: list[ParsedPage]) -> dict:
    """``dataInfo`` of the answer; sizes in pixels of the page as it was parsed."""
    sizes = [{"width": page.width, "height": page.height} for page in pages]
    if document.format == "PDF":
        return {"type": "pdf", "numPages": len(sizes), "pages": sizes}
    if len(sizes) > 1:
        return {"type": "tiff", "numPages": len(sizes), "pages": sizes}
    return {"type": "image", **sizes[0]}


def remove_stale(folder: Path | None) -> None:
    """Documents that a killed service left in its own spool folder."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.glob("docparser-*"):
            path.unlink(missing_ok=True)
