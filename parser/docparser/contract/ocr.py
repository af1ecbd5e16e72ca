# SPDX-License-Identifier: Apache-2.0
"""Requests and answers of Mistral's OCR API, as far as reading a document goes (API reference, "OCR" and
"Files", 2026). Fields of requests that are not listed are ignored."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field, StrictBool, StrictInt
from typing_extensions import TypedDict

from docparser.contract.answers import Error, Report
from docparser.contract.request_parts import MAX_RANGES, PageRange, parse_ranges, select_pages
from docparser.contract.schemas import MAX_FIELDS, MAX_PAGES, MAX_PICTURES, Lenient, Text

Format = Annotated[dict[str, Any], Field(max_length=MAX_FIELDS)]
NOT_HERE = {
    "bbox_annotation_format": "this service reads what is printed and describes no pictures",
    "document_annotation_format": "this service reads what is printed and answers no questions about it",
    "document_annotation_prompt": "this service reads what is printed and answers no questions about it",
    "table_format": "tables are HTML in the Markdown",
    "confidence_scores_granularity": "/layout-parsing has the confidence of blocks, where the operator wants it",
}


class OcrImageUrl(Lenient):
    url: str


class OcrDocument(Lenient):
    type: Literal["document_url", "image_url", "file"] = Field(description="Which of the fields holds the document.")
    document_url: str | None = Field(
        default=None, description="A data URL, an address of a file, or a URL where the operator allows its host."
    )
    document_name: Text | None = None
    image_url: str | OcrImageUrl | None = Field(default=None, description="The same, also as an object with `url`.")
    file_id: Text | None = Field(default=None, description="The id of an uploaded file.")


class OcrRequest(Lenient):
    """Body of ``POST /v1/ocr``."""

    model: Text | None = Field(default=None, description="`mistral-ocr-latest`, or a name of GET /v1/models.")
    document: OcrDocument
    pages: (
        Annotated[str, Field(max_length=MAX_RANGES)]
        | Annotated[list[Annotated[StrictInt, Field(ge=0)]], Field(max_length=MAX_PAGES)]
        | None
    ) = Field(default=None, description="From 0: a list, or a text like `0,2-4`. All, if it is left out.")
    include_image_base64: StrictBool | None = None
    image_limit: Annotated[StrictInt, Field(ge=0, le=MAX_PICTURES)] | None = None
    image_min_size: Annotated[StrictInt, Field(ge=0)] | None = Field(default=None, description="Of the shorter side.")
    extract_header: StrictBool | None = None
    extract_footer: StrictBool | None = None
    include_blocks: StrictBool | None = None
    bbox_annotation_format: Format | None = Field(default=None, description="Refused.")
    document_annotation_format: Format | None = Field(default=None, description="Refused.")
    document_annotation_prompt: Text | None = Field(default=None, description="Refused.")
    table_format: Text | None = Field(default=None, description="Refused.")
    confidence_scores_granularity: Text | None = Field(default=None, description="Refused.")

    def refusal(self) -> str | None:
        """Why the request cannot be met, with the field's name; None if it can."""
        for field, why in NOT_HERE.items():
            if getattr(self, field) is not None:
                return f"{field}: {why}; leave it out"
        return None

    def source(self) -> tuple[str, str]:
        """The field that holds the document, and its value. Raises ValueError unless it is there."""
        kind = self.document.type
        image = self.document.image_url
        found = {
            "document_url": self.document.document_url,
            "image_url": image.url if isinstance(image, OcrImageUrl) else image,
            "file": self.document.file_id,
        }[kind]
        field = "document." + ("file_id" if kind == "file" else kind)
        if found is None:
            raise ValueError(f"{field}: missing; expected it, since document.type is {kind}")
        return field, found

    def selected(self, count: int) -> list[int]:
        """The indices of the pages that are asked for, in order, in a document of ``count`` pages. Raises
        ValueError."""
        pages = self.pages
        if pages is None:
            return list(range(count))
        try:
            ranges = parse_ranges(pages, 0) if isinstance(pages, str) else [PageRange(page, page) for page in pages]
            if chosen := select_pages(ranges, count, 0):
                return chosen
            raise ValueError("names no page; leave it out for all pages")
        except ValueError as exc:
            raise ValueError(f"pages: {exc}") from None


# ---- answers, built as ``answers`` says


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
