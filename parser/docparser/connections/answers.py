# SPDX-License-Identifier: Apache-2.0
"""Answers to what never became a request. No path is known, so an error has the fields of all paths' errors."""

from __future__ import annotations

import http
import json
import uuid

RETRY_S = 10


def error_answer(status: int, words: str) -> bytes:
    """A whole HTTP answer, after which the connection is closed."""
    body = {"logId": str(uuid.uuid4()), "errorCode": status, "errorMsg": words, "code": status, "msg": words}
    body |= {"error": {"message": words, "type": "server_error" if status >= 500 else "invalid_request_error"}}
    content = json.dumps(body).encode()
    retry = f"Retry-After: {RETRY_S}\r\n" if status in (429, 503) else ""
    head = (
        f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(content)}\r\n{retry}X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + content
