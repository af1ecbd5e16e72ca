# SPDX-License-Identifier: Apache-2.0
"""The parser's HTTP interface as its callers see it: the request, the refusals, the pictures in an answer.

The demo and the self-test send whole documents with `request`. `batch` has its own asynchronous client and shares the
rest with them.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

import declared_settings
from bundle.paths import VALUES
from bundle.ports import reachable
from health_probe import OPENER
from tool_errors import ParseError, ServiceError, UsageError

# All but what a path may have: letters of any language too, but not the bytes of a name that is not UTF-8.
LINK_BREAKING = re.compile(r"[^\w./~-]")


def address(values: Mapping[str, str]) -> str:
    """Where this machine reaches the parser that these settings start, in a container or without. Raises UsageError."""
    host = reachable(declared_settings.unchecked(values, "PARSER_BIND"))
    return f"http://{host}:{declared_settings.port(values, 'PARSER_PORT')}"


def body(data: bytes, file_type: int, **options: Any) -> dict[str, Any]:
    """Return the JSON body of POST /layout-parsing; `file_type` is 0 for a PDF and 1 for an image."""
    return {"file": base64.b64encode(data).decode("ascii"), "fileType": file_type, **options}


def headers() -> dict[str, str]:
    """Return the headers of a request: JSON, and PARSER_API_KEY of the environment or .env where it is set.

    Raises UsageError for a key that no header can hold.
    """
    key = VALUES.get("PARSER_API_KEY") or ""
    if wrong := [sign for sign in key if not (sign.isascii() and sign.isprintable())]:
        raise UsageError(f"PARSER_API_KEY holds {wrong[0]!r}: expected printable ASCII; copy the key again")
    return {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}


def get(url: str, timeout: float, most: int = 1 << 20) -> str:
    """Return a page of the parser, its first `most` bytes; `timeout` is in seconds.

    Raises OSError where it does not answer, and HTTPError, which is one, for another status than 2xx.
    """
    call = urllib.request.Request(url, headers=headers())
    with OPENER.open(call, timeout=timeout) as response:
        return response.read(most).decode("utf-8", "replace")


def request(url: str, path: Path, file_type: int, timeout: float, **options: Any) -> dict[str, Any]:
    """POST a file to `url`/layout-parsing and return the `result` of the answer. `timeout` is in seconds; `options` are
    those of the request.

    Raises UsageError for a 4xx, ParseError for any other refusal, ServiceError if the parser goes away.
    """
    document = json.dumps(body(path.read_bytes(), file_type, visualize=False, **options)).encode()
    call = urllib.request.Request(f"{url}/layout-parsing", document, headers())
    try:
        with OPENER.open(call, timeout=timeout) as response:
            return json.load(response)["result"]
    except urllib.error.HTTPError as error:
        message = f"{path}: {refusal(error.code, error.read(10000).decode('utf-8', 'replace'))}"
        if error.code == 401:
            message += "; put the key into PARSER_API_KEY"
        # 408 and 429 are 4xx too, but they are not the document's fault.
        kind = UsageError if error.code in range(400, 500) and error.code not in (408, 429) else ParseError
        raise kind(message) from error
    except (OSError, http.client.HTTPException) as error:
        raise ServiceError(f"{path}: the parser went away ({getattr(error, 'reason', error)})") from error
    except (ValueError, KeyError) as error:
        raise ParseError(f"{path}: the parser's answer cannot be understood ({error})") from error


def refusal(status: int, text: str) -> str:
    """Return the parser's own message from an error answer, else the HTTP status and the beginning of the body."""
    try:
        answer = json.loads(text)
        return f"{answer['errorMsg']} ({answer['errorCode']})"
    except (ValueError, KeyError, TypeError):
        return f"HTTP {status} {text[:200].strip()}"


def relink(markdown: dict[str, Any], prefix: str) -> tuple[str, dict[str, str], dict[str, bytes]]:
    """Give the pictures of one page's Markdown names of our own, which begin with `prefix`.

    Returns the text with links to the new names, {the parser's name: new name}, and {new name: bytes of the picture}.
    In a link, signs that would end or change it are escaped: `prefix` may hold a document's name.
    """
    text, names, pictures = markdown["text"], {}, {}
    for source, data in (markdown.get("images") or {}).items():
        # The name comes over the network: only its last part is used.
        target = f"{prefix}{PurePosixPath(source).name}"
        text = text.replace(source, LINK_BREAKING.sub(lambda sign: quote(os.fsencode(sign[0])), target))
        names[source] = target
        pictures[target] = base64.b64decode(data)
    return text, names, pictures
