# SPDX-License-Identifier: Apache-2.0
"""The job API in the OpenAPI description: the body of a submission, what answers mean, and callbacks."""

from __future__ import annotations

from typing import Any

from docparser.contract.job_answers import CallbackBody, SubmittedAnswer
from docparser.contract.request_parts import MAX_RANGES, PRIORITIES
from docparser.contract.schemas import MAX_TEXT, ParseOptions
from docparser.http.examples import JOB_REQUEST, SUBMITTED
from docparser.http.openapi import BINARY, form_content, ref, shows
from docparser.jobs.submission import MAX_ID, MAX_PAYLOAD

CALLBACK_URL = {
    "type": "string",
    "maxLength": 2048,
    "description": "Address of a host in PARSER_CALLBACK_HOSTS that is told how the job ended.",
    "example": "https://hooks.example.com/parsed",
}
PRIORITY = {
    "type": "string",
    "enum": list(PRIORITIES),
    "description": "bulk: its pages wait for interactive ones. A key's own bulk counts in any case.",
}
NAME = {"type": "string", "maxLength": MAX_TEXT}
PAGE_RANGES = {"type": "string", "maxLength": MAX_RANGES, "example": "2,4-6,9-"}
HEADERS = {
    "webhook-id": "The same for each attempt of a callback.",
    "webhook-timestamp": "When this attempt was made, in seconds since the epoch.",
    "webhook-signature": "`v1,` and HMAC-SHA256 of `id.timestamp.body` in base64, one per secret, divided by spaces.",
}
CALLBACKS: dict[str, Any] = {
    "ended": {
        "{$request.body#/callbackUrl}": {
            "post": {
                "operationId": "job_ended",
                "summary": "The job has ended (Standard Webhooks 1.0).",
                "parameters": [
                    {"name": name, "in": "header", "required": True, "description": words, "schema": {"type": "string"}}
                    for name, words in HEADERS.items()
                ],
                "requestBody": {"required": True, "content": {"application/json": {"schema": ref(CallbackBody)}}},
                "responses": {
                    "2XX": {"description": "Delivered; the answer's body is not read."},
                    "410": {"description": "Ends it: no further attempt."},
                    "default": {"description": "It is sent again later; Retry-After is honoured up to an hour."},
                },
            }
        }
    }
}
NO_JOB = {"description": "There is no such job, or it is another key's."}
NO_KEYS = {"description": "This service has no keys, so it lists no jobs; or a web page of another origin sent this."}
EXPIRED = {"description": "The address has expired; the job's state has a new one."}
NO_RESULT = {"description": "There is no result yet."}
KEY_REUSED = {"description": "The Idempotency-Key was used for another request."}
QUEUE_FULL = {"description": "The queue is full, or a quota is used up."}
DISK_FULL = {"description": "There is no room for another job's files."}
IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "The same request with the same key, sent again, returns the same job.",
    "schema": {"type": "string", "minLength": 1, "maxLength": MAX_ID},
}
BODY = {
    "callbacks": CALLBACKS,
    "parameters": [IDEMPOTENCY_KEY],
    "requestBody": {
        "required": True,
        "content": {
            **form_content(
                ["model", "file"],
                model=NAME,
                file=BINARY,
                optionalPayload={
                    "type": "string",
                    "maxLength": MAX_PAYLOAD,
                    "description": "Options of /layout-parsing as JSON.",
                },
                pageRanges=PAGE_RANGES,
                batchId={"type": "string", "maxLength": MAX_ID},
                callbackUrl=CALLBACK_URL,
                priority=PRIORITY,
            ),
            "application/json": {
                "example": JOB_REQUEST,
                "schema": {
                    "type": "object",
                    "required": ["model", "fileUrl"],
                    "properties": {
                        "model": NAME,
                        "fileUrl": {"type": "string"},
                        "optionalPayload": ref(ParseOptions),
                        "pageRanges": PAGE_RANGES,
                        "batchId": {"type": "string", "maxLength": MAX_ID},
                        "callbackUrl": CALLBACK_URL,
                        "priority": PRIORITY,
                    },
                },
            },
        },
    },
}

# What a client does next with the id that it got (OpenAPI 3.1, Link Object): the operations by their operationId.
NEXT = ("getJob", "followJob", "getJobResult", "getJobPage", "retryJob", "cancelJob")
JOB_ID = {"job_id": "$response.body#/data/jobId"}
ACCEPTED: dict[str, Any] = {
    **shows("The job is kept; data.jobId names it.", SubmittedAnswer, SUBMITTED),
    "links": {operation: {"operationId": operation, "parameters": JOB_ID} for operation in NEXT},
}
