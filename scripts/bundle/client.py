# SPDX-License-Identifier: Apache-2.0
"""Client of the parser: one document in, its pages out, written as Markdown, JSON and image files."""

from __future__ import annotations

import base64
import http.client
import json
import os
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from health_probe import OPENER

from .errors import ParseError, ServiceError, UsageError
from .inputs import Document


@dataclass(frozen=True)
class Parsed:
    """A parsed document: Markdown with links to `images` (relative path -> bytes), and what is written as JSON."""

    markdown: str
    images: dict[str, bytes]
    record: dict[str, object]
    pages: int


def request(url: str, document: Document, timeout: float) -> dict[str, object]:
    """POST a document to /layout-parsing; returns the `result` of the answer.

    Raises UsageError for a 4xx, ParseError for any other refusal, ServiceError when the parser goes away.
    """
    body = json.dumps({"file": base64.b64encode(document.path.read_bytes()).decode("ascii"),
                       "fileType": document.file_type, "visualize": False}).encode()
    call = urllib.request.Request(f"{url}/layout-parsing", body, {"Content-Type": "application/json"})
    try:
        with OPENER.open(call, timeout=timeout) as response:
            return json.load(response)["result"]
    except urllib.error.HTTPError as error:
        message = f"{document.path}: {reason(error)}"
        # 408 and 429 are 4xx too, but not the document's fault.
        kind = UsageError if error.code in range(400, 500) and error.code not in (408, 429) else ParseError
        raise kind(message) from error
    except (OSError, http.client.HTTPException) as error:
        raise ServiceError(f"{document.path}: the parser went away ({getattr(error, 'reason', error)})") from error
    except (ValueError, KeyError) as error:
        raise ParseError(f"{document.path}: the parser's answer cannot be understood ({error})") from error


def reason(error: urllib.error.HTTPError) -> str:
    """The parser's own words where it gave any."""
    text = error.read(10000).decode("utf-8", "replace")
    try:
        answer = json.loads(text)
        return f"{answer['errorMsg']} ({answer['errorCode']})"
    except (ValueError, KeyError, TypeError):
        return f"HTTP {error.code} {text[:200].strip()}"


def collect(document: Document, result: dict[str, object], weights: dict[str, object]) -> Parsed:
    """Turn an answer into what is written. Raises ParseError when a page is missing."""
    pages = result["layoutParsingResults"]
    info = result.get("dataInfo") or {}
    expected = info.get("numPages", len(pages))
    if not pages or len(pages) != expected:
        raise ParseError(f"{document.path}: only {len(pages)} of {expected} pages were parsed")
    for page in (result.get("docparser") or {}).get("pages", ()):
        if "error" in page:
            raise ParseError(f"{document.path}: page {page['page']} was not parsed: {page['error']['message']}")
    texts, images, records = [], {}, []
    for number, page in enumerate(pages, 1):
        markdown = page["markdown"]
        text, names = markdown["text"], {}
        for source, data in (markdown.get("images") or {}).items():
            # The name comes over the network: only its last part is used.
            target = f"images/{document.stem}-{number}-{PurePosixPath(source).name}"
            text = text.replace(source, target)
            images[target] = base64.b64decode(data)
            names[source] = target
        texts.append(text.strip())
        records.append({"page": number, "prunedResult": page["prunedResult"],
                        "markdown": {"text": text, "images": names}})
    record = {"file": document.path.name, "weights": weights, "dataInfo": info, "pages": records}
    return Parsed("\n\n".join(texts) + "\n", images, record, len(pages))


def write(parsed: Parsed, stem: str, out: Path) -> None:
    """Write `<stem>.md`, `<stem>.json` and the images; each file appears whole or not at all."""
    (out / "images").mkdir(parents=True, exist_ok=True)
    for name, data in parsed.images.items():
        replace(out / name, data)
    replace(out / f"{stem}.json", (json.dumps(parsed.record, ensure_ascii=False, indent=1) + "\n").encode())
    replace(out / f"{stem}.md", parsed.markdown.encode())


def replace(path: Path, data: bytes) -> None:
    """Write beside the file and rename."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(data)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
