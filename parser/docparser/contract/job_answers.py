# SPDX-License-Identifier: Apache-2.0
"""Answers of the job API, its events and its callbacks. See ``answers``."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from docparser.contract.answers import DataInfo, Moment, PageEntry, PageErrorKind, Report

JobStateName = Literal["pending", "running", "done", "failed"]
PageStateName = Literal["queued", "running", "done", "failed"]


class JobSuccess(TypedDict):
    logId: str
    code: Literal[0]
    msg: str


class ServedNotes(TypedDict):
    """The model that reads, and ``notes`` on it and on options without effect."""

    model: str
    notes: list[str]


class SubmittedJob(TypedDict):
    jobId: str
    docparser: ServedNotes


class SubmittedAnswer(JobSuccess):
    data: SubmittedJob


class Progress(TypedDict):
    totalPages: int
    extractedPages: int
    startTime: NotRequired[Moment]
    endTime: NotRequired[Moment]


class ResultUrl(TypedDict):
    jsonUrl: Annotated[str, Field(description="JSON lines, one per page (JobLine); needs no key, and expires.")]


class PageCounts(TypedDict):
    queued: int
    running: int
    done: int
    failed: int


class FailedPage(TypedDict):
    page: int
    kind: PageErrorKind
    message: str | None


class CallbackReport(TypedDict):
    """What became of the job's newest callback."""

    state: str
    attempts: int
    type: NotRequired[str]
    lastStatus: NotRequired[int | None]
    lastError: NotRequired[str]
    nextTime: NotRequired[Moment]


class JobReport(TypedDict):
    """Ours beyond the hosted API's. ``waitsFor``: why a job that has not ended does not go on."""

    cancelled: bool
    partial: Annotated[
        bool,
        Field(
            description="A page is missing: it failed, or the job has not ended or was cancelled. The result's own "
            "`partial` is true also where blocks are missing or cut."
        ),
    ]
    pages: PageCounts
    failedPages: NotRequired[list[FailedPage]]
    model: NotRequired[str]
    notes: NotRequired[list[str]]
    callback: NotRequired[CallbackReport]
    partialUrl: NotRequired[str]
    waitsFor: NotRequired[str]


class JobDetails(TypedDict, total=False):
    batchId: str
    extractProgress: Annotated[Progress, Field(description="Once the document is open.")]
    errorMsg: str
    resultUrl: ResultUrl


class EndedJob(JobDetails):
    """A job as its callback tells it."""

    jobId: str
    state: JobStateName
    model: str
    createTime: Moment
    docparser: JobReport


class Job(EndedJob):
    fileName: str


class JobAnswer(JobSuccess):
    data: Job


class Batch(TypedDict):
    batchId: str
    extractResult: list[Job]


class BatchAnswer(JobSuccess):
    data: Batch


class ListedJobs(TypedDict):
    jobs: list[Job]
    nextCursor: Annotated[str | None, Field(description="`cursor` of the next request; null: no more.")]


class ListedAnswer(JobSuccess):
    data: ListedJobs


class CancelledJob(TypedDict):
    jobId: str
    state: JobStateName
    purged: bool


class CancelledAnswer(JobSuccess):
    data: CancelledJob


class RetriedJob(TypedDict):
    jobId: str
    pages: Annotated[int, Field(description="That are parsed again.")]


class RetriedAnswer(JobSuccess):
    data: RetriedJob


class JobPage(TypedDict):
    """One page. The first line of a result has ``dataInfo``."""

    layoutParsingResults: Annotated[list[PageEntry], Field(min_length=1, max_length=1)]
    docparser: Report
    dataInfo: NotRequired[DataInfo]


class JobLine(TypedDict):
    """A line of a job's result."""

    result: JobPage


class PageEvent(TypedDict):
    """``data`` of the event `page`: a page that changed."""

    page: int
    state: PageStateName
    width: NotRequired[int]
    height: NotRequired[int]
    error: NotRequired[str]


class CallbackBody(TypedDict):
    """What a callback sends; the headers follow Standard Webhooks 1.0."""

    type: Literal["job.done", "job.failed", "job.cancelled"]
    timestamp: Annotated[Moment, Field(description="When the job ended.")]
    data: EndedJob
