# SPDX-License-Identifier: Apache-2.0
"""Answers of Mistral's OCR API (API reference, "OCR" and "Files", 2026). See ``answers``."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from docparser.contract.answers import Error, Report


class OcrError(Error):
    """Every error of this API, whose clients read ``message``."""

    object: Literal["error"]
    message: str
    type: str
    param: Annotated[str | None, Field(description="The field that is wrong.")]
    code: str | None


class OcrDimensions(TypedDict):
    """Of the page as it was read, in pixels. ``dpi`` is what PARSER_PDF_SCALE makes of most PDFs, whatever the document
    is."""

    dpi: int
    height: int
    width: int


class OcrCorners(TypedDict):
    """In pixels of the page; null where the place is not known."""

    top_left_x: int | None
    top_left_y: int | None
    bottom_right_x: int | None
    bottom_right_y: int | None


class OcrImage(OcrCorners):
    """A picture; the page's Markdown has it as ``![id](id)``."""

    id: str
    image_base64: Annotated[str | None, Field(description="A data URL, with `include_image_base64`.")]


class OcrBlock(OcrCorners):
    type: Annotated[str, Field(description="`text`, `title`, `table`, `image`, `equation`, `header` ...")]
    content: str
    image_id: NotRequired[str]


class OcrPage(TypedDict):
    """``index`` counts from 0. A page that could not be read has no text and no dimensions; ``docparser`` says why."""

    index: int
    markdown: str
    images: list[OcrImage]
    dimensions: OcrDimensions | None
    header: NotRequired[Annotated[str | None, Field(description="With `extract_header`.")]]
    footer: NotRequired[Annotated[str | None, Field(description="With `extract_footer`.")]]
    blocks: NotRequired[Annotated[list[OcrBlock], Field(description="With `include_blocks`.")]]


class OcrUsage(TypedDict):
    pages_processed: int
    doc_size_bytes: int


class OcrAnswer(TypedDict):
    """``docparser`` is that of /layout-parsing."""

    pages: list[OcrPage]
    model: str
    document_annotation: None
    usage_info: OcrUsage
    docparser: Report


class OcrFile(TypedDict):
    id: str
    object: Literal["file"]
    bytes: int
    created_at: int
    expires_at: Annotated[int, Field(description="When it is gone, in seconds since the epoch.")]
    filename: str
    purpose: Literal["ocr"]
    sample_type: Literal["ocr_input"]
    source: Literal["upload"]
    deleted: Literal[False]


class OcrFileUrl(TypedDict):
    url: Annotated[
        str, Field(description="For `document_url` of `POST /v1/ocr` of this service, and for nothing else.")
    ]


class OcrFileDeleted(TypedDict):
    id: str
    object: Literal["file"]
    deleted: Literal[True]
