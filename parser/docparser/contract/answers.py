# SPDX-License-Identifier: Apache-2.0
"""Answers of the parsing API, and errors of all of the service.

The code builds answers as these dictionaries, and `/openapi.json` shows their schemas. Nothing validates an answer at
run time, because a long document has many megabytes of it; tests do. Texts that say a kind or a state are no
enumerations where a later version may have more of them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import ConfigDict, Field, WithJsonSchema, with_config
from typing_extensions import TypedDict

Moment = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]
Picture = Annotated[str, Field(description="JPEG in base64; in a job's result its address, in its ZIP its path.")]
# What PaddleX writes may have further members, by the options of the request and the version of the model.
paddlex = with_config(ConfigDict(extra="allow"))


# ---- what is wrong


class QuotaState(TypedDict):
    name: str
    limit: int
    used: int


class Error(TypedDict):
    """Every error. ``errorCode`` is the HTTP status; ``errorMsg`` names the field, or the limit and its setting."""

    logId: str
    errorCode: int
    errorMsg: str
    quota: NotRequired[Annotated[QuotaState, Field(description="The quota of the key that is used up, with 429.")]]


class JobError(Error):
    """Every error of the job API, whose clients read ``code`` and ``msg``: the same again."""

    code: int
    msg: str


class OpenAiReason(TypedDict):
    message: str
    type: str
    param: Annotated[str | None, Field(description="The field that is wrong.")]
    code: str | None


class OpenAiError(Error):
    """Every error of the OpenAI API, whose clients read ``error``."""

    error: OpenAiReason


# ---- which models read, and what they left out


class LayoutWeights(TypedDict):
    model: NotRequired[Annotated[str | None, Field(description="null: the VLM reads whole pages.")]]
    demo: NotRequired[Annotated[bool, Field(description="Whether these are the demo weights.")]]


class VlmWeights(TypedDict):
    model: str
    demo: NotRequired[Annotated[bool, Field(description="Whether these are the demo weights.")]]
    wholePages: NotRequired[Annotated[bool, Field(description="It reads a page at once, without a layout model.")]]
    general: NotRequired[Annotated[bool, Field(description="It was not trained to parse documents.")]]


class ModelsInUse(TypedDict):
    """Which weights were used. ``demo`` is left out where nobody knows."""

    layout: LayoutWeights
    vlm: VlmWeights


PageErrorKind = Annotated[
    str,
    Field(
        description="`invalid`, `too_large`, `too_slow`, `timeout`, `worker_lost`, `internal` or `failed`; of a job "
        "also `quota` and `damaged`."
    ),
]


class PageError(TypedDict):
    kind: PageErrorKind
    message: str | None


class Note(TypedDict):
    kind: str
    message: str


class NotedBlock(Note):
    block_id: Annotated[int | None, Field(description="In `parsing_res_list`; null: of the whole page.")]


class PageReport(TypedDict):
    """A page of which there is something to say. ``blocks`` are those that are missing or cut."""

    page: Annotated[int, Field(description="From 1.")]
    error: NotRequired[PageError]
    blocks: NotRequired[list[NotedBlock]]
    notes: NotRequired[list[Note]]


class DocumentNotes(TypedDict):
    """``notes`` name options without effect."""

    partial: Annotated[bool, Field(description="Something is missing or cut.")]
    pages: list[PageReport]
    notes: NotRequired[list[str]]


class Report(DocumentNotes):
    """Which weights were used, and what is missing or cut, and why."""

    models: ModelsInUse


# ---- a parsed document


@paddlex
class Block(TypedDict):
    block_label: str
    block_content: str
    block_bbox: Annotated[list[float], Field(description="Left, top, right, bottom, in pixels of the page.")]
    block_id: NotRequired[int]
    block_order: NotRequired[Annotated[int | None, Field(description="In reading order; null: no part of the text.")]]
    group_id: NotRequired[int]
    block_polygon_points: NotRequired[list[list[float]]]
    confidence: NotRequired[Annotated[float | None, Field(ge=0, le=1)]]
    doubtful: NotRequired[bool]
    source: NotRequired[
        Annotated[str | None, Field(description="Whose letters: vlm, or page (its own text); null: no text.")]
    ]
    agreement: NotRequired[
        Annotated[float | None, Field(ge=0, le=1, description="Of the VLM's text with the page's own.")]
    ]


@paddlex
class LayoutBox(TypedDict):
    label: str
    score: float
    coordinate: list[float]


@paddlex
class LayoutBoxes(TypedDict):
    boxes: list[LayoutBox]


@paddlex
class PrunedResult(TypedDict):
    """PaddleX's result of a page. A page that could not be read has only empty lists; pages that were made one
    (`concatenatePages`) have a list of `layout_det_res`."""

    parsing_res_list: list[Block]
    layout_det_res: NotRequired[LayoutBoxes | list[LayoutBoxes] | None]
    width: NotRequired[int | None]
    height: NotRequired[int | None]
    page_count: NotRequired[int | None]
    model_settings: NotRequired[dict[str, Any]]


class Markdown(TypedDict):
    text: str
    images: NotRequired[dict[str, Picture]]


class WordFile(TypedDict):
    content: Annotated[str, Field(description="Base64.")]
    fileName: str


class Exports(TypedDict):
    docx: WordFile


class OutlineEntry(TypedDict):
    block_id: Annotated[int, Field(description="In `parsing_res_list`.")]
    level: Annotated[int, Field(ge=1, le=6, description="1: the document's title.")]
    text: str


class TableHead(TypedDict):
    block_id: Annotated[int, Field(description="In `parsing_res_list`.")]
    rows: Annotated[int, Field(ge=1, description="How many rows at the top are the table's head, by their print.")]


class TextPlace(TypedDict):
    text: str
    bbox: Annotated[list[float], Field(description="Left, top, right, bottom, in pixels of the page.")]
    start: Annotated[int, Field(ge=0, description="`text` is `block_content[start:end]`, in Unicode characters.")]
    end: Annotated[int, Field(ge=1)]


class CellPlace(TypedDict):
    row: Annotated[int, Field(ge=0)]
    column: Annotated[int, Field(ge=0)]
    rowSpan: Annotated[int, Field(ge=1)]
    columnSpan: Annotated[int, Field(ge=1)]
    bbox: Annotated[list[float], Field(description="Left, top, right, bottom, in pixels of the page.")]
    text: str


class BlockPlaces(TypedDict):
    """Where the text of a block stands: `lines` or `words`, or the `cells` of a table."""

    block_id: Annotated[int, Field(description="In `parsing_res_list`.")]
    source: Annotated[str, Field(description="By what they were found: page (its own text), or ink.")]
    lines: NotRequired[list[TextPlace]]
    words: NotRequired[list[TextPlace]]
    cells: NotRequired[list[CellPlace]]


class PageEntry(TypedDict):
    """A page: its blocks, its Markdown, and what was asked for beside them."""

    prunedResult: PrunedResult
    markdown: Markdown
    tableHeads: NotRequired[list[TableHead]]
    places: NotRequired[
        Annotated[list[BlockPlaces], Field(description="Asked for by places; none of a block where none is found.")]
    ]
    outline: NotRequired[
        Annotated[
            list[OutlineEntry], Field(description="Its headings at their levels in the document (restructurePages).")
        ]
    ]
    outputImages: NotRequired[dict[str, Picture]]
    inputImage: NotRequired[Picture]
    exports: NotRequired[Exports]


class PageSize(TypedDict):
    """In pixels; 0 for a page that failed."""

    width: int
    height: int


class DataInfo(TypedDict):
    """A picture has a size; other documents have pages."""

    type: Literal["pdf", "tiff", "image"]
    width: NotRequired[int]
    height: NotRequired[int]
    numPages: NotRequired[int]
    pages: NotRequired[list[PageSize]]


class ParsedDocument(TypedDict):
    """``layoutParsingResults`` has one entry per page, in order."""

    layoutParsingResults: list[PageEntry]
    dataInfo: DataInfo
    docparser: Report


class RestructureReport(TypedDict):
    models: ModelsInUse
    notes: NotRequired[list[str]]


class RestructuredDocument(TypedDict):
    layoutParsingResults: list[PageEntry]
    docparser: RestructureReport


class ChunkBox(TypedDict):
    page: int
    label: str
    box: list[float]
    pageSize: list[int]


class ChunkPlace(TypedDict):
    page: int
    box: list[float]
    start: Annotated[int, Field(ge=0, description="Of the chunk's `text`, in Unicode characters.")]
    end: Annotated[int, Field(ge=1)]


class Chunk(TypedDict):
    """A line of the format `chunks`."""

    id: str
    document: str
    kind: str
    headings: list[str]
    text: str
    tokens: int
    doubtful: NotRequired[bool]
    sources: NotRequired[Annotated[list[str], Field(description="Of its blocks.")]]
    agreement: NotRequired[Annotated[float | None, Field(description="The lowest of its blocks.")]]
    pages: list[int]
    boxes: list[ChunkBox]
    places: NotRequired[Annotated[list[ChunkPlace], Field(description="With the option places.")]]


class Success(TypedDict):
    logId: str
    errorCode: Literal[0]
    errorMsg: str


class ParseAnswer(Success):
    result: ParsedDocument


class RestructureAnswer(Success):
    result: RestructuredDocument
