# SPDX-License-Identifier: Apache-2.0
"""Answers of docling-serve's API (docling-serve 1.38, docling 2.143). See ``answers``."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from docparser.contract.answers import Error


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
