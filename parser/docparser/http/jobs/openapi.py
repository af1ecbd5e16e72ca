# SPDX-License-Identifier: Apache-2.0
"""The job API in the OpenAPI description: the body of a submission, what answers mean, and callbacks."""

from __future__ import annotations

from typing import Any

from docparser.contract.schemas import MAX_TEXT
from docparser.contract.strict_json import MAX_VALUES
from docparser.jobs.submission import MAX_ID, MAX_PAYLOAD, MAX_RANGES

CALLBACK_URL = {
    "type": "string",
    "maxLength": 2048,
    "description": "Address of a host in PARSER_CALLBACK_HOSTS that is told how the job ended.",
    "example": "https://hooks.example.com/parsed",
}
NAME = {"type": "string", "maxLength": MAX_TEXT}
PAGE_RANGES = {"type": "string", "maxLength": MAX_RANGES, "example": "2,4-6,9-"}
HEADERS = {
    "webhook-id": "The same for each attempt of a callback.",
    "webhook-timestamp": "When this attempt was made, in seconds since the epoch.",
    "webhook-signature": "`v1,` and HMAC-SHA256 of `id.timestamp.body` in base64, one per secret, divided by spaces.",
}
TOLD = {
    "type": "object",
    "required": ["type", "timestamp", "data"],
    "properties": {
        "type": {"enum": ["job.done", "job.failed", "job.cancelled"]},
        "timestamp": {"type": "string", "format": "date-time", "description": "When the job ended."},
        "data": {"type": "object", "description": "As of `GET /api/v2/ocr/jobs/{job_id}`, without the file's name."},
    },
}
CALLBACKS: dict[str, Any] = {
    "ended": {
        "{$request.body#/callbackUrl}": {
            "post": {
                "summary": "The job has ended (Standard Webhooks 1.0).",
                "parameters": [
                    {"name": name, "in": "header", "required": True, "description": words, "schema": {"type": "string"}}
                    for name, words in HEADERS.items()
                ],
                "requestBody": {"content": {"application/json": {"schema": TOLD}}},
                "responses": {
                    "2XX": {"description": "Delivered; the answer's body is not read."},
                    "410": {"description": "Ends it: no further attempt."},
                    "default": {"description": "It is sent again later; Retry-After is honoured up to an hour."},
                },
            }
        }
    }
}
BODY = {
    "callbacks": CALLBACKS,
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["model", "file"],
                    "properties": {
                        "model": NAME,
                        "file": {"type": "string", "format": "binary"},
                        "optionalPayload": {
                            "type": "string",
                            "maxLength": MAX_PAYLOAD,
                            "description": "Options of /layout-parsing as JSON.",
                        },
                        "pageRanges": PAGE_RANGES,
                        "batchId": {"type": "string", "maxLength": MAX_ID},
                        "callbackUrl": CALLBACK_URL,
                    },
                }
            },
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["model", "fileUrl"],
                    "properties": {
                        "model": NAME,
                        "fileUrl": {"type": "string"},
                        "optionalPayload": {"type": "object", "maxProperties": MAX_VALUES},
                        "pageRanges": PAGE_RANGES,
                        "batchId": {"type": "string", "maxLength": MAX_ID},
                        "callbackUrl": CALLBACK_URL,
                    },
                }
            },
        },
    },
}


RESPONSES: dict[int | str, dict[str, Any]] = {
    400: {"description": "A field is wrong; msg names it."},
    404: {"description": "There is no such job."},
    429: {"description": "The queue is full, or a quota is used up; Retry-After."},
    503: {"description": "The data directory or its database cannot be used now, or the VLM is away; Retry-After."},
    507: {"description": "The disk is full; Retry-After."},
}
LISTED_JOB = {
    "type": "object",
    "required": ["jobId", "state", "model", "fileName", "createTime", "docparser"],
    "properties": {
        "jobId": {"type": "string"},
        "state": {"enum": ["pending", "running", "done", "failed"]},
        "model": {"type": "string"},
        "fileName": {"type": "string"},
        "createTime": {"type": "string", "format": "date-time"},
        "batchId": {"type": "string"},
        "extractProgress": {"type": "object", "description": "Pages and times, once the document is open."},
        "errorMsg": {"type": "string"},
        "resultUrl": {"type": "object", "description": "Of a job that is done: `jsonUrl`."},
        "docparser": {"type": "object", "description": "`cancelled`, `partial`, and how many `pages` in each state."},
    },
}
LIST = {
    "type": "object",
    "required": ["logId", "code", "msg", "data"],
    "properties": {
        "logId": {"type": "string"},
        "code": {"type": "integer"},
        "msg": {"type": "string"},
        "data": {
            "type": "object",
            "required": ["jobs", "nextCursor"],
            "properties": {
                "jobs": {"type": "array", "items": LISTED_JOB},
                "nextCursor": {
                    "type": ["string", "null"],
                    "description": "`cursor` of the next request; null: no more.",
                },
            },
        },
    },
}
LISTING: dict[int | str, dict[str, Any]] = {
    200: {"description": "Jobs, newest first.", "content": {"application/json": {"schema": LIST}}},
    400: {"description": "A parameter is wrong; msg names it."},
    403: {"description": "This service has no keys, so nobody has a list of jobs."},
    503: RESPONSES[503],
}


# What a client does next with the id that it got (OpenAPI 3.1, Link Object): the operations by their operationId.
NEXT = {
    "state": "state_api_v2_ocr_jobs__job_id__get",
    "events": "events_api_v2_ocr_jobs__job_id__events_get",
    "result": "result_api_v2_ocr_jobs__job_id__result_get",
    "page": "page_api_v2_ocr_jobs__job_id__pages__number__get",
    "retry": "retry_api_v2_ocr_jobs__job_id__retry_post",
    "cancel": "cancel_api_v2_ocr_jobs__job_id__delete",
}


JOB_ID = {"job_id": "$response.body#/data/jobId"}


ACCEPTED: dict[str, Any] = {
    "description": "The job is kept; data.jobId names it.",
    "links": {name: {"operationId": operation, "parameters": JOB_ID} for name, operation in NEXT.items()},
}
