# SPDX-License-Identifier: Apache-2.0
"""Callbacks in the OpenAPI description: the field of a submission, and the request that is sent (Callback Object)."""

from __future__ import annotations

from typing import Any

CALLBACK_URL = {
    "type": "string",
    "maxLength": 2048,
    "description": "Address of a host in PARSER_CALLBACK_HOSTS that is told how the job ended.",
    "example": "https://hooks.example.com/parsed",
}
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
