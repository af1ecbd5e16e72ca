# SPDX-License-Identifier: Apache-2.0
"""What a worker leaves to its child processes: reading answers, joining pages, Word files. Loads PaddleX but no Paddle.

Input is a pickle of the worker. Output is JSON, which the worker passes on and never reads.
"""

from __future__ import annotations

import dataclasses
import json
import pickle
from collections.abc import Iterable, Mapping
from typing import Any, BinaryIO

import numpy as np

from docparser.contract.answers import PageEntry
from docparser.contract.schemas import OutputOptions, RestructureRequest
from docparser.errors import InvalidRequest
from docparser.outline import TITLES, Title, levels, side
from docparser.page import provenance
from docparser.page.early_text import PagePart
from docparser.page.entry import docx_export, encode_jpeg, page_entry
from docparser.page.frozen import Known, Page, from_client, put_images_back, restored, thaw, with_own_pictures
from docparser.page.paddlex_private import PaddleOCRVLResult, restructured_pages
from docparser.page.provenance import Provenance
from docparser.worker import sent_pages


@dataclasses.dataclass(frozen=True)
class ReadPage:
    """``frozen`` page with its answers. ``drawn_on``: the page that spotted texts are drawn on, uint8 ``[height, width,
    3]``, blue first."""

    frozen: dict[str, Any]
    number: int
    options: OutputOptions
    max_side: int
    drawn_on: np.ndarray | None = None


@dataclasses.dataclass(frozen=True)
class JoinFrozen:
    """The files of pages that were frozen with their answers, by the pages' indices, in order; output: an entry in
    each line."""

    pages: dict[int, dict[str, bytes]]
    options: OutputOptions
    max_side: int


@dataclasses.dataclass(frozen=True)
class JoinSent:
    """The body of a request with pages that a client sent, at most ``most``; output: a SentHead, then an entry in each
    line."""

    body: bytes
    most: int
    max_side: int


def read_page(args: dict[str, Any], source: BinaryIO, sink: BinaryIO) -> None:
    """Output: the page's part of an entry, without pictures and Word file; the object with its Markdown comes last."""
    task: ReadPage = pickle.load(source)
    page = thaw(task.frozen, task.number - 1)
    entry = page_entry(page, task.number, text_only(task.options), max_side=task.max_side)
    last = {"markdown": entry["markdown"]}
    sink.write(to_json({key: value for key, value in entry.items() if key not in last} | last))


def text_only(options: OutputOptions) -> OutputOptions:
    """For an entry whose pictures and Word file are added separately."""
    return options.model_copy(update={"returnMarkdownImages": False, "outputFormats": None})


def read_part(args: dict[str, Any], source: BinaryIO, sink: BinaryIO) -> None:
    """Output: the Markdown of a PagePart, in UTF-8."""
    part: PagePart = pickle.load(source)
    sink.write(part.markdown().encode("utf-8", "replace"))


def draw_spotted(args: dict[str, Any], source: BinaryIO, sink: BinaryIO) -> None:
    """Output: the picture of the texts that were spotted on the page, base64 by its name."""
    task: ReadPage = pickle.load(source)
    result = thaw(task.frozen, task.number - 1).result
    result["doc_preprocessor_res"] = {"output_img": task.drawn_on}
    sink.write(to_json({name: encode_jpeg(picture, task.max_side) for name, picture in result.img.items()}))


def word_file(args: dict[str, Any], source: BinaryIO, sink: BinaryIO) -> None:
    """Output: the Word file of a ReadPage, as an entry has it."""
    task: ReadPage = pickle.load(source)
    sink.write(to_json(docx_export(thaw(task.frozen, task.number - 1).result, task.number)))


def join_frozen(args: dict[str, Any], source: BinaryIO, sink: BinaryIO) -> None:
    task: JoinFrozen = pickle.load(source)
    # PaddleX joins the tables of neighbours in its list, so an empty page stands behind what nothing follows.
    places = sorted({place for index in task.pages for place in (index, index + 1)})
    pages = [thaw(restored(task.pages[at]), at) if at in task.pages else _empty_page() for at in places]
    joined = _join(
        [page.result for page in pages],
        [known for page in pages for known in page.known],
        task.options,
    )
    _write(
        sink,
        (
            page_entry(page, at + 1, task.options, max_side=task.max_side)
            for at, page in zip(places, joined, strict=True)
            if at in task.pages
        ),
    )


def _empty_page() -> Page:
    return Page(PaddleOCRVLResult({"model_settings": {}, "parsing_res_list": []}), [])


def join_sent(args: dict[str, Any], source: BinaryIO, sink: BinaryIO) -> None:
    task: JoinSent = pickle.load(source)
    head, entries = sent_pages.answer(task.body, task.most, lambda request: _sent_entries(request, task.max_side))
    _write(sink, [dataclasses.asdict(head), *entries])


def _sent_entries(request: RestructureRequest, max_side: int) -> list[PageEntry]:
    """The entries of the pages. Raises InvalidRequest for what is no page."""
    pages = [(page.prunedResult, page.markdownImages or {}) for page in request.pages]
    try:
        sent = with_own_pictures(pages) if request.concatenatePages else pages
        images = [images for _, images in sent]
        if request.concatenatePages:
            images = [{path: picture for page in images for path, picture in page.items()}]
        results = [from_client(pruned, index) for index, (pruned, _) in enumerate(sent)]
        known = [Known(Provenance.sent(block)) for pruned, _ in sent for block in pruned["parsing_res_list"]]
        joined = _join(results, known, request)
        options = text_only(request)
        entries = [page_entry(page, number, options, max_side=max_side) for number, page in enumerate(joined, 1)]
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as exc:
        raise InvalidRequest(
            f"pages: prunedResult is not that of an answer of /layout-parsing ({type(exc).__name__}: {exc})"
        ) from None
    for number, (entry, page, pictures) in enumerate(zip(entries, joined, images, strict=True), 1):
        if request.returnMarkdownImages and pictures:
            entry["markdown"]["images"] = pictures
        if request.wants_word:
            put_images_back(page.result, pictures)
            entry["exports"] = {"docx": docx_export(page.result, number)}
    return entries


def _join(pages: list, known: list[Known], options: OutputOptions) -> list[Page]:
    """The results (or ``{"res": prunedResult}``) of all pages of a document, joined as ``options`` say. ``known``: of
    all their blocks."""
    results = restructured_pages(
        pages,
        merge_tables=options.mergeTables,
        relevel_titles=options.relevelTitles,
        concatenate_pages=isinstance(options, RestructureRequest) and options.concatenatePages,
    )
    blocks = [block for result in results for block in result["parsing_res_list"]]
    origins = provenance.joined(blocks, [one.provenance for one in known])
    levels_by_page = outlines(results) if options.relevelTitles else [{}] * len(results)

    def now(block: Any, level: int) -> Known:
        before = known[block.global_block_id]
        # A table that went on from the page before has no text left, and no rows.
        rows = before.head_rows if block.content else 0
        return Known(origins[block.global_block_id], rows, before.ground, level)

    return [
        Page(
            result,
            [now(block, levels_of.get(place, 0)) for place, block in enumerate(result["parsing_res_list"])],
            outlined=options.relevelTitles,
        )
        for result, levels_of in zip(results, levels_by_page, strict=True)
    ]


def outlines(results: Iterable[Any]) -> list[dict[int, int]]:
    """Of each of PaddleX's results, all of one document in order: the levels of its headings by their places among its
    blocks. ``relevel_titles`` has told the blocks which page they stand on. PaddleX's Markdown keeps PaddleX's levels
    (docs/decisions/0238)."""
    titles: list[Title] = []
    places: list[tuple[int, int]] = []
    found: list[dict[int, int]] = []
    for page, result in enumerate(results):
        found.append({})
        for place, block in enumerate(result["parsing_res_list"]):
            if block.label in TITLES and (block.content or "").strip():
                size = side(result.get("width")), side(result.get("height"))
                titles.append(Title.of(block.label, block.content, block.bbox, block.page_index, size))
                places.append((page, place))
    for (page, place), level in zip(places, levels(titles), strict=True):
        found[page][place] = level
    return found


def _write(sink: BinaryIO, entries: Iterable[Mapping[str, Any]]) -> None:
    for number, entry in enumerate(entries):
        sink.write((b"\n" if number else b"") + to_json(entry))  # JSON has no newline in it


def to_json(entry: Mapping[str, Any]) -> bytes:
    return json.dumps(entry, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


JOBS = {
    "read": read_page,
    "part": read_part,
    "draw": draw_spotted,
    "word": word_file,
    "join": join_frozen,
    "join_sent": join_sent,
}
