# SPDX-License-Identifier: Apache-2.0
"""Requests to the parser as strangers send them: one connection each, a time-out, no retries of its own."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit


class Away(Exception):
    """No answer: refused, reset, ended early, or timed out."""


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as JSON; {} where it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            return {}

    @property
    def retry_after_s(self) -> float:
        text = self.headers.get("retry-after", "")
        return min(float(text), 10.0) if text.isdigit() else 1.0


def ask(
    url: str,
    method: str,
    path: str,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    timeout: float = 60,
) -> Answer:
    """The answer to one request; raises Away."""
    try:
        with connected(url, timeout) as connection:
            connection.request(method, path, body, dict(headers or {}))
            answer = connection.getresponse()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
    except (OSError, http.client.HTTPException) as error:
        raise Away(f"{type(error).__name__}: {error}"[:200]) from None


@contextlib.contextmanager
def connected(url: str, timeout: float) -> Iterator[http.client.HTTPConnection]:
    where = urlsplit(url)
    assert where.hostname is not None, "the bundle's own address"
    connection = http.client.HTTPConnection(where.hostname, where.port, timeout=timeout)
    try:
        yield connection
    finally:
        connection.close()


def raw(url: str, timeout: float) -> socket.socket:
    """A bare connection, for clients that do not speak to the end."""
    where = urlsplit(url)
    return socket.create_connection((where.hostname, where.port), timeout=timeout)


def form(fields: Mapping[str, str], file: tuple[str, bytes]) -> tuple[bytes, dict[str, str]]:
    """A multipart body with a part `file` (name, content), and its header."""
    border = "chaos-9f1c7d5e"
    parts = [
        f'--{border}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in fields.items()
    ]
    name, content = file
    head = f'--{border}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
    parts.append(head.encode() + b"Content-Type: application/octet-stream\r\n\r\n" + content + b"\r\n")
    body = b"".join(parts) + f"--{border}--\r\n".encode()
    return body, {"Content-Type": f"multipart/form-data; boundary={border}"}
