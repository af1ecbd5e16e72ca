# SPDX-License-Identifier: Apache-2.0
"""A result in each of the formats, and the conversion as a job of a child process."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import time
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, BinaryIO

from docparser.convert import chunks, searchable_pdf, to_html, to_markdown, word, workbook
from docparser.convert.document import ResultDocument, Source
from docparser.convert.names import PAGE_BREAK, Format, How, is_safe_path
from docparser.convert.parts import outline_of, plain_tables
from docparser.convert.searchable_pdf import UneditablePdf
from docparser.convert.table_joins import joined_pages
from docparser.errors import UnreadableText

Writer = Callable[[ResultDocument, BinaryIO], None]


def write(document: ResultDocument, format: Format, sink: BinaryIO, how: How) -> None:
    """Text and archives page by page, the others as a whole. ``sink`` can seek, for the archive."""
    if format == "chunks":
        outline = outline_of(document.entries()) if how.outline else {}
        chunks.write(document.stem, document.entries(), how.chunk_tokens, how.join_tables, sink, outline)
        return
    if how.join_tables:
        document = dataclasses.replace(document, pages=list(joined_pages(document.numbered())))
    if format == "pdf":
        _pdf(document, sink)
        return
    document = document.with_missing()
    markdown = _escaped_markdown if how.escape_markdown else _markdown
    if format == "zip":
        _zip(document, sink, markdown)
        return
    writers = {"md": markdown, "json": _json, "html": _html, "xlsx": workbook.render, "docx": _docx}
    writers[format](document, sink)


def _markdown(document: ResultDocument, sink: BinaryIO) -> None:
    _write_pages((to_markdown.with_printed_headings(page).strip() for page in document.pages), sink)


def _escaped_markdown(document: ResultDocument, sink: BinaryIO) -> None:
    _write_pages(map(to_markdown.escaped_markdown, document.pages), sink)


def _write_pages(texts: Iterable[str], sink: BinaryIO) -> None:
    for number, text in enumerate(texts):
        sink.write(((PAGE_BREAK if number else "") + text).encode("utf-8", "replace"))
    sink.write(b"\n")


def _json(document: ResultDocument, sink: BinaryIO) -> None:
    sink.write(json.dumps(document.result, ensure_ascii=False).encode("utf-8", "replace"))


def _html(document: ResultDocument, sink: BinaryIO) -> None:
    for piece in to_html.pieces(document):
        sink.write(piece.encode("utf-8", "replace"))


def _docx(document: ResultDocument, sink: BinaryIO) -> None:
    word.render(document.pages, sink, document.stem)


def _pdf(document: ResultDocument, sink: BinaryIO) -> None:
    """Raises UneditablePdf."""
    assert document.source is not None, "a searchable PDF is made from the document"
    pages: dict[int, dict[str, Any]] = {number: {} for number in document.missing}  # they stay, without a text
    searchable_pdf.write(document.source, sorted((pages | dict(document.entries())).items()), sink)


def _zip(document: ResultDocument, sink: BinaryIO, markdown: Writer) -> None:
    """Markdown with its pictures, JSON, HTML, and a workbook if there are tables.

    A picture is left out if its path leads out of the archive or means something else on another system, or if an
    earlier one has the same path but for the case of its letters.
    """
    with contextlib.closing(zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED)) as archive:
        writers = {"md": markdown, "json": _json, "html": _html}
        if any(any(plain_tables(page.parts)) for page in document.pages):
            writers["xlsx"] = workbook.render
        for format, write_part in writers.items():
            with archive.open(_dated(f"{document.stem}.{format}"), "w", force_zip64=True) as entry:
                write_part(document, entry)  # type: ignore[arg-type]  # a file to write to, though no BinaryIO
        written = {name.casefold() for name in archive.namelist()}
        for page in document.pages:
            for path in page.pictures:
                if is_safe_path(path) and path.casefold() not in written:
                    written.add(path.casefold())
                    archive.writestr(path, page.picture(path), zipfile.ZIP_STORED)


def _dated(name: str) -> zipfile.ZipInfo:
    """An entry of now; without a date it would be of 1980."""
    entry = zipfile.ZipInfo(name, time.localtime()[:6])
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry


def convert_answer(args: dict[str, Any], source: BinaryIO, sink: BinaryIO) -> None:
    """A job of a child process: writes an answer of the service to ``sink``, in another format.

    ``args``: those of ``ResultDocument.read``, ``format``, ``how`` (fields of How), ``source`` (the document's path and
    format). Raises UnreadableText.
    """
    path, format = args["source"]
    document = dataclasses.replace(ResultDocument.read(args, source), source=Source(Path(path), format))
    try:
        write(document, args["format"], sink, How(**args["how"]))
    except UneditablePdf as exc:
        raise UnreadableText(f"format: no text can be put into this document ({exc}); ask for another format") from None
