# SPDX-License-Identifier: Apache-2.0
"""Requests of Mistral's OCR API, as far as reading a document goes (API reference, "OCR", 2026). Fields that are not
listed are ignored."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt

from docparser.contract.schemas import MAX_FIELDS, MAX_PAGES, MAX_PICTURES, Text

RANGE = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6}))?")
MAX_RANGES = 10_000  # characters
Format = Annotated[dict[str, Any], Field(max_length=MAX_FIELDS)]
NOT_HERE = {
    "bbox_annotation_format": "this service reads what is printed and describes no pictures",
    "document_annotation_format": "this service reads what is printed and answers no questions about it",
    "document_annotation_prompt": "this service reads what is printed and answers no questions about it",
    "table_format": "tables stand in the Markdown, as HTML",
    "confidence_scores_granularity": "/layout-parsing has the confidence of blocks, where the operator wants it",
}


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class OcrImageUrl(_Part):
    url: str


class OcrDocument(_Part):
    type: Literal["document_url", "image_url", "file"] = Field(description="Which of the fields holds the document.")
    document_url: str | None = Field(
        default=None, description="A data URL, an address of a file, or a URL where the operator allows its host."
    )
    document_name: Text | None = None
    image_url: str | OcrImageUrl | None = Field(default=None, description="The same, also as an object with `url`.")
    file_id: Text | None = Field(default=None, description="The id of an uploaded file.")


class OcrRequest(BaseModel):
    """Body of ``POST /v1/ocr``."""

    model_config = ConfigDict(extra="ignore", frozen=True)

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
        if self.pages is None:
            return list(range(count))
        chosen: set[int] = set()
        for first, last in self._ranges():
            if max(first, last) >= count:
                raise ValueError(
                    f"pages: {max(first, last)} is none of the document's pages, which are 0 to {count - 1}"
                )
            chosen.update(range(first, last + 1))
        if not chosen:
            raise ValueError("pages: names no page; leave it out for all pages")
        return sorted(chosen)

    def _ranges(self) -> Iterator[tuple[int, int]]:
        if isinstance(self.pages, list):
            yield from ((page, page) for page in self.pages)
            return
        for part in (self.pages or "").split(","):
            match = RANGE.fullmatch(part.strip())
            if not match or (match[2] and int(match[2]) < int(match[1])):
                raise ValueError(f"pages: {part.strip()[:40]!r} is neither a page nor a range; expected like 0,2-4")
            yield int(match[1]), int(match[2] or match[1])
