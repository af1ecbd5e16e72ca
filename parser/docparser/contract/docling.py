# SPDX-License-Identifier: Apache-2.0
"""Requests and answers of docling-serve's API, as far as reading a document goes (docling-serve 1.38, docling 2.143).

Options that say how docling is to work (engines, models, backends) have no effect. Those that ask for what cannot be
given are refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NotRequired, get_args

from pydantic import BeforeValidator, Field
from typing_extensions import TypedDict

from docparser.contract.answers import Error
from docparser.contract.request_parts import file_name_of, parse_ranges, select_pages
from docparser.contract.schemas import MAX_FIELDS, MAX_PART, Lenient, Text

DoclingFormat = Literal["md", "json", "html", "text"]
FORMATS: tuple[str, ...] = get_args(DoclingFormat)
MODES = ("placeholder", "embedded")
LAST_PAGE = 1_000_000  # what lies beyond stands for the end
ListOfTexts = Annotated[list[Text], Field(max_length=100)]
NOT_HERE = {
    "do_picture_description": "this service reads what is printed and describes no pictures",
    "do_picture_classification": "this service does not classify pictures",
    "do_code_enrichment": "this service has no model for code",
    "include_page_images": "/layout-parsing has the pictures of pages, with visualize",
}
# A job's id, and after it what is wanted of its result.
TASK = re.compile(rf"([0-9a-f]{{32}})-((?:{'|'.join(FORMATS)})(?:\.(?:{'|'.join(FORMATS)})){{0,3}})(-embedded)?")


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class DoclingOptions(Lenient):
    to_formats: Annotated[ListOfTexts, BeforeValidator(_as_list)] = Field(
        default=["md"], json_schema_extra={"items": {"type": "string", "enum": list(FORMATS)}}
    )
    image_export_mode: Text = Field(default="placeholder", json_schema_extra={"enum": list(MODES)})
    page_range: Annotated[list[int], Field(min_length=2, max_length=2)] | None = Field(
        default=None, description="First and last page, from 1."
    )
    md_page_break_placeholder: Text | None = Field(default=None, description="Refused unless it is empty.")
    do_chart_extraction: bool | None = Field(default=None, description="Charts are read as tables.")
    do_picture_description: bool | None = Field(default=None, description="Refused if it is true.")
    do_picture_classification: bool | None = Field(default=None, description="Refused if it is true.")
    do_code_enrichment: bool | None = Field(default=None, description="Refused if it is true.")
    include_page_images: bool | None = Field(default=None, description="Refused if it is true.")

    @property
    def formats(self) -> list[str]:
        return [format for format in FORMATS if format in self.to_formats]

    @property
    def embed(self) -> bool:
        return self.image_export_mode == "embedded"

    def refusal(self) -> str | None:
        """Why the options cannot be met, with the field's name; None if they can."""
        wanted = set(self.to_formats)
        if (more := wanted - set(FORMATS)) or not wanted:
            shown = ", ".join(repr(format[:MAX_PART]) for format in sorted(more)[:3]) or "nothing"
            return f"to_formats: {shown} is not available; expected one or more of {', '.join(FORMATS)}"
        if self.image_export_mode not in MODES:
            mode = self.image_export_mode[:MAX_PART]
            return f"image_export_mode: {mode!r} is not available; expected {' or '.join(MODES)}"
        if self.md_page_break_placeholder:
            return "md_page_break_placeholder: an empty line separates pages; leave it out"
        if self.page_range and not 1 <= self.page_range[0] <= self.page_range[1]:
            return f"page_range: {self.page_range} is empty; expected the first and the last page, from 1"
        for field, why in NOT_HERE.items():
            if getattr(self, field):
                return f"{field}: {why}; send false or leave it out"
        return None

    def reading(self) -> dict[str, Any]:
        """The options of /layout-parsing: pictures as `![](path)`, and nothing drawn over pages."""
        charts = {"useChartRecognition": True} if self.do_chart_extraction else {}
        return {"visualize": False, "prettifyMarkdown": False, **charts}

    def page_ranges(self) -> str | None:
        """As jobs have it; a shorter document has fewer pages of them, as docling has it."""
        if self.page_range is None or (self.page_range[0] == 1 and self.page_range[1] >= LAST_PAGE):
            return None
        first, last = self.page_range
        return f"{first}-{f'{last}~' if last < LAST_PAGE else ''}"

    def selected(self, count: int) -> list[int]:
        """The indices of the pages that are asked for in a document of ``count`` pages. Raises ValueError."""
        try:
            return [page - 1 for page in select_pages(parse_ranges(self.page_ranges() or "1-"), count)]
        except ValueError as exc:
            raise ValueError(f"page_range: {exc}") from None

    def task(self, job_id: str) -> str:
        return f"{job_id}-{'.'.join(self.formats)}{'-embedded' if self.embed else ''}"


class DoclingSource(Lenient):
    kind: Literal["file", "http"] = Field(description="Other kinds are refused.")
    base64_string: str | None = Field(default=None, description="The document, of the kind `file`.")
    filename: Text | None = None
    url: str | None = Field(default=None, description="Of the kind `http`, where the operator allows its host.")
    headers: Annotated[dict[str, Text], Field(max_length=MAX_FIELDS)] | None = Field(
        default=None, description="Refused unless it is empty."
    )


class DoclingTarget(Lenient):
    kind: Text = Field(default="inbody", description="`inbody`.")


def target_refusal(kind: str) -> str | None:
    if kind == "inbody":
        return None
    if kind == "presigned_url":  # docling's client asks for it first, and knows these words
        return "target: presigned_url needs artifact storage to be configured, which this service has not; send inbody"
    return f"target: {kind[:MAX_PART]!r} is not available; expected inbody"


class DoclingRequest(Lenient):
    """Body of ``POST /v1/convert/source`` and its ``/async``."""

    sources: Annotated[list[DoclingSource], Field(min_length=1, max_length=1)] = Field(description="One document.")
    options: DoclingOptions = Field(default_factory=DoclingOptions)
    target: DoclingTarget = Field(default_factory=DoclingTarget)
    callbacks: Annotated[list[Any], Field(max_length=0)] = Field(default=[], description="Must be empty.")

    def source(self) -> tuple[str, str]:
        """The field that holds the document, and its value. Raises ValueError unless it is there."""
        source = self.sources[0]
        if source.headers:
            raise ValueError(
                "sources.0.headers: this service fetches addresses without a client's headers; leave it out"
            )
        field = "base64_string" if source.kind == "file" else "url"
        value = getattr(source, field)
        if value is None:
            raise ValueError(f"sources.0.{field}: missing; expected it, since kind is {source.kind}")
        return f"sources.0.{field}", value

    @property
    def file_name(self) -> str:
        source = self.sources[0]
        return source.filename or file_name_of(source.url or "") or "document"


def options_of_form(fields: Mapping[str, list[str]]) -> DoclingOptions:
    """Of a form, whose fields may come several times. Raises ValidationError."""
    known = DoclingOptions.model_fields.keys() & fields.keys()
    return DoclingOptions.model_validate(
        {name: fields[name] if name in ("to_formats", "page_range") else fields[name][-1] for name in known}
    )


# ---- answers, built as ``answers`` says


class DoclingError(Error):
    """Every error of this API, whose clients read ``detail``: the message again."""

    detail: str


class DoclingFile(TypedDict):
    """Null for a format that was not asked for."""

    filename: str
    md_content: str | None
    json_content: Annotated[dict[str, Any] | None, Field(description="A DoclingDocument (docling-core).")]
    html_content: str | None
    text_content: str | None


class DoclingFailure(TypedDict):
    component_type: Literal["pipeline"]
    module_name: str
    error_message: str


class DoclingAnswer(TypedDict):
    document: DoclingFile
    status: Annotated[str, Field(description="`success`, or `partial_success` where something is missing.")]
    errors: list[DoclingFailure]
    processing_time: Annotated[float, Field(description="In seconds.")]
    timings: dict[str, Any]


class DoclingCounts(TypedDict):
    num_docs: int
    num_processed: int
    num_succeeded: int
    num_failed: int


class DoclingTask(TypedDict):
    task_id: str
    task_type: Literal["convert"]
    task_status: Annotated[str, Field(description="`pending`, `started`, `success` or `failure`.")]
    task_position: None
    task_meta: DoclingCounts
    error_message: NotRequired[str]
