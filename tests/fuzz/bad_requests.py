# SPDX-License-Identifier: Apache-2.0
"""Bad requests to every HTTP interface of the parser, made from a number: the same number makes the same request.

Most are wrong in a generated way. Some are right and meet a VLM that answers anything, so that their pages, results and
formats are made of hostile text.
"""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from tests.fuzz.choices import Choices, dumped
from tests.support import damaged, samples

JOBS = "/api/v2/ocr/jobs"
# Where a request may go: every path of the OpenAPI description, and those that it leaves out. A test compares.
PATHS = (
    *("/layout-parsing", "/restructure-pages", "/parse"),
    *("/health", "/health/ready", "/metrics", "/usage", "/capacity", "/capabilities", JOBS),
    *("/v1/chat/completions", "/v1/models", "/v1/models/{model}"),
    *("/v1/convert/source", "/v1/convert/source/async", "/v1/convert/file", "/v1/convert/file/async"),
    *("/v1/status/poll/{task_id}", "/v1/result/{task_id}"),
    *("/v1/ocr", "/v1/files", "/v1/files/{file_id}", "/v1/files/{file_id}/url"),
    *(f"{JOBS}/{{job_id}}", f"{JOBS}/{{job_id}}/events", f"{JOBS}/{{job_id}}/result", f"{JOBS}/{{job_id}}/retry"),
    *(f"{JOBS}/{{job_id}}/pages/{{number}}", f"{JOBS}/{{job_id}}/originals/{{number}}", f"{JOBS}/batch/{{batch_id}}"),
    "/api/v2/ocr/results/{job_id}/{permission}/result.jsonl",
    "/api/v2/ocr/results/{job_id}/{permission}/pages/{number}/{name}",
)
UNLISTED = ("/", "/ui/{name}", "/docs", "/openapi.json", "/favicon.ico", "/{name}")
METHODS = ("GET", "POST", "DELETE", "PUT", "PATCH", "HEAD", "OPTIONS", "TRACE", "BREW")
TYPES = (
    *("application/json", "application/json; charset=utf-16", "multipart/form-data", "multipart/form-data; boundary="),
    *("multipart/form-data; boundary=x", "text/plain", "application/x-www-form-urlencoded", "", "\xff", "a" * 5000),
)
HEADERS = (
    *("Authorization", "X-Api-Key", "X-Request-Id", "Idempotency-Key", "Last-Event-ID", "Range", "Host", "Origin"),
    *("Accept", "Accept-Encoding", "Content-Encoding", "If-None-Match", "If-Modified-Since", "Expect", "Cookie"),
    *("X-Forwarded-For", "X-Forwarded-Proto", "Forwarded", "Sec-Fetch-Site", "Upgrade", "X-HTTP-Method-Override"),
)
WORDS = (
    *("result.jsonl", "1", "0", "md", "zip", "html", "xlsx", "pdf", "purge=true", "sha256", "bytes=0-,5-,-1"),
    "..%2f..%2f",
)
FORMATS = ("md", "json", "html", "xlsx", "docx", "pdf", "chunks", "zip", "exe", "", "\0")
VLM_WORDS = (
    *("<fcel>", "<lcel>", "<ucel>", "<xcel>", "<nl>", "<table>", "<td rowspan=200 colspan=200>", "\\[", "\\(", "$"),
    *("$$", "<script>", "![](//e)", "| a |\n|---|\n", "\n\n", "# ", "\\frac{", "{", "}", "<loc_1>", "|", "text "),
    "\x1b[0m",
)
PAGE = samples.image(size=(240, 320))


@dataclasses.dataclass(frozen=True)
class BadRequest:
    """What one request sends. `raw` are bytes for the bare connection, instead of everything else."""

    kind: str
    method: str = "GET"
    path: str = "/"
    headers: tuple[tuple[bytes, bytes], ...] = ()
    body: bytes = b""
    raw: bytes | None = None


def request(number: int, known_jobs: Callable[[], list[str]] = list) -> BadRequest:
    """Request `number`; `known_jobs` gives ids of jobs that exist."""
    chance = random.Random(f"bad-{number}")
    choices = Choices(chance.randbytes(1500))
    kind = KINDS[number % len(KINDS)]
    return kind(choices, number, known_jobs())


def layout_parsing(choices: Choices, number: int, jobs: list[str]) -> BadRequest:
    """A damaged file, or something else, with options of any kind."""
    body = fields(choices, OPTIONS)
    body["file"] = samples.encode(damaged.file(number)[1]) if choices.chance(2) else choices.value(WORDS)
    return BadRequest("layout-parsing", "POST", "/layout-parsing", as_json(choices), dumped(body))


def page_of_any_text(choices: Choices, number: int, jobs: list[str]) -> BadRequest:
    """A good page; what the VLM says about it is generated (`vlm_answer`)."""
    if choices.chance(2):
        body = {
            "file": PAGE,
            "visualize": False,
            "outputFormats": choices.one((None, ["docx"])),
            "restructurePages": True,
        }
        return BadRequest("good page", "POST", "/layout-parsing", as_json(choices), dumped(body))
    content, type = multipart(choices, damaged_file=False, number=number)
    path = f"/parse?format={quote(choices.one(FORMATS[:8]))}"
    return BadRequest("good page", "POST", path, ((b"content-type", type),), content)


def any_body(choices: Choices, number: int, jobs: list[str]) -> BadRequest:
    """Bytes, or JSON of any form, to any path that takes a body."""
    path = choices.one(
        (
            "/layout-parsing",
            "/restructure-pages",
            "/parse",
            JOBS,
            "/v1/chat/completions",
            "/v1/ocr",
            "/v1/convert/source",
        )
    )
    body = choices.one((b"", b"{", b"[1]", b"null", b"\xff\xfe{", b'{"a":' * 3000, b"[" * 200_000, b"1" * 6000))
    body = body if choices.chance(2) else dumped(choices.value(WORDS))
    return BadRequest("body", "POST", path, any_headers(choices) + any_type(choices), body)


def restructure(choices: Choices, number: int, jobs: list[str]) -> BadRequest:
    block = {"block_label": "table", "block_content": choices.text(VLM_WORDS, 4000), "block_bbox": [0, 0, 9, 9]}
    block |= fields(choices, ("block_id", "block_order", "block_bbox", "block_label", "group_id", "global_block_id"))
    pruned: Any = {"parsing_res_list": [block, choices.value(VLM_WORDS)], "width": 9, "height": 9, "page_count": 1}
    pruned = pruned if choices.chance(2) else choices.value(WORDS)
    page = {"prunedResult": pruned, "markdownImages": choices.one((None, {"a": "b"}, {"../x": PAGE}))}
    pages = [page] * choices.one((1, 2, 5)) if choices.chance(2) else choices.value(WORDS)
    body = {"pages": pages, "concatenatePages": True, **fields(choices, ("mergeTables", "relevelTitles", "logId"))}
    return BadRequest("restructure", "POST", "/restructure-pages", as_json(choices), dumped(body))


def form(choices: Choices, number: int, jobs: list[str]) -> BadRequest:
    content, type = multipart(choices, damaged_file=True, number=number)
    path = choices.one((f"/parse?format={quote(choices.one(FORMATS))}", JOBS, JOBS, JOBS))
    return BadRequest("form", "POST", path, any_headers(choices) + ((b"content-type", type),), content)


def job_as_json(choices: Choices, number: int, jobs: list[str]) -> BadRequest:
    body = {"model": "PaddleOCR-VL-1.6", "fileUrl": choices.one(("data:;base64," + PAGE, "http://127.0.0.1:1/", "x"))}
    body |= fields(choices, ("model", "fileUrl", "optionalPayload", "pageRanges", "batchId", "x"))
    return BadRequest("job", "POST", JOBS, any_headers(choices) + as_json(choices), dumped(body))


def chat(choices: Choices, number: int, jobs: list[str]) -> BadRequest:
    """A damaged file by the OpenAI API, whole or as a stream, with fields and parts of any kind."""
    data = samples.encode(damaged.file(number)[1]) if choices.chance(2) else choices.value(WORDS)
    url = f"data:image/png;base64,{data}" if isinstance(data, str) else data
    part = choices.one(({"type": "image_url", "image_url": {"url": url}}, {"type": "file", "file": {"file_data": url}}))
    parts = [part, {"type": "text", "text": choices.text(WORDS)}] if choices.chance(2) else choices.value(WORDS)
    body = {"model": "PaddleOCR-VL", "stream": bool(choices.below(2)), "messages": [{"role": "user", "content": parts}]}
    body |= fields(choices, ("model", "messages", "stream", "stream_options", "n", "tools", "options", "temperature"))
    return BadRequest("chat", "POST", "/v1/chat/completions", any_headers(choices) + as_json(choices), dumped(body))


def dialect(choices: Choices, number: int, jobs: list[str]) -> BadRequest:
    """A damaged file by Mistral's or docling-serve's API, with fields of any kind."""
    data = samples.encode(damaged.file(number)[1]) if choices.chance(2) else choices.value(WORDS)
    if choices.below(2):
        url = f"data:image/png;base64,{data}" if isinstance(data, str) else data
        document = {"type": "image_url", "image_url": url}
        body = {"document": document, "include_blocks": True, "extract_header": True}
        body |= fields(choices, ("model", "document", "pages", "image_limit", "image_min_size", "table_format"))
        return BadRequest("dialect", "POST", "/v1/ocr", as_json(choices), dumped(body))
    options = {"to_formats": ["md", "json", "html", "text"], "image_export_mode": "embedded"}
    options |= fields(choices, ("to_formats", "image_export_mode", "page_range", "do_chart_extraction"))
    body = {"sources": [{"kind": "file", "base64_string": data}], "options": options}
    body |= fields(choices, ("sources", "target", "callbacks"))
    path = "/v1/convert/source" + choices.one(("", "/async"))
    return BadRequest("dialect", "POST", path, as_json(choices), dumped(body))


def any_path(choices: Choices, number: int, jobs: list[str]) -> BadRequest:
    """Any method on any path, with ids that exist and others."""
    template = choices.one((*PATHS, *UNLISTED))
    path = template
    for name in ("job_id", "batch_id", "permission", "number", "name", "model", "file_id", "task_id"):
        known = choices.one(jobs) if jobs and name == "job_id" and not choices.chance(4) else None
        word = choices.one((*WORDS, "9" * 5000)) if choices.chance(2) else choices.text(WORDS, 300)
        path = path.replace(
            f"{{{name}}}", known or quote(word.encode("utf-8", "surrogatepass"), safe="%/." * choices.below(2))
        )
    if choices.chance(3):
        path += "?" + quote(choices.text((*WORDS, "format=", "purge=", "&", "="), 300).encode("utf-8", "surrogatepass"))
    return BadRequest("path", choices.one(METHODS), path, any_headers(choices))


def raw(choices: Choices, number: int, jobs: list[str]) -> BadRequest:
    """What no client library would send."""
    line = choices.one(
        (
            b"GET / HTTP/1.1\r\n",
            b"POST /parse HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            b"POST /layout-parsing HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n",
            b"POST /layout-parsing HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\nx\r\n0\r\n\r\n",
            b"POST /restructure-pages HTTP/1.1\r\nContent-Length: -1\r\n",
            b"POST /parse HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n",
            b"GET /health HTTP/9.9\r\n",
            b"GET http://evil.example/health HTTP/1.1\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00",
            b"GET /ui/\x00 HTTP/1.1\r\n",
            b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n",
            b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 3000,
            b"GET / HTTP/1.1\r\nA : b\r\n b\r\n",
            b"OPTIONS * HTTP/1.1\r\n",
            b"",
        )
    )
    rest = choices.take(200) if choices.chance(2) else b"Host: x\r\n\r\n" + choices.take(60)
    return BadRequest("raw", raw=line + rest)


KINDS: tuple[Callable[[Choices, int, list[str]], BadRequest], ...] = (
    *(layout_parsing, any_body, any_path, form, raw, restructure, any_path, layout_parsing, job_as_json, any_path),
    *(any_body, form, raw, chat, restructure, layout_parsing, form, any_path, page_of_any_text, dialect),
)
OPTIONS = (
    *("fileType", "logId", "useLayoutDetection", "layoutThreshold", "layoutUnclipRatio", "layoutMergeBboxesMode"),
    *("layoutShapeMode", "promptLabel", "formatBlockContent", "mergeLayoutBlocks", "markdownIgnoreLabels", "visualize"),
    *("repetitionPenalty", "temperature", "topP", "minPixels", "maxPixels", "maxNewTokens", "vlmExtraArgs", "nothing"),
    *("outputFormats", "prettifyMarkdown", "showFormulaNumber", "restructurePages", "mergeTables", "relevelTitles"),
)


def fields(choices: Choices, names: tuple[str, ...]) -> dict[str, Any]:
    return {choices.one(names): choices.value(WORDS) for _ in range(choices.below(4))}


def as_json(choices: Choices) -> tuple[tuple[bytes, bytes], ...]:
    return ((b"content-type", b"application/json"),)


def any_type(choices: Choices) -> tuple[tuple[bytes, bytes], ...]:
    return ((b"content-type", choices.one(TYPES).encode("latin-1")),)


def any_headers(choices: Choices) -> tuple[tuple[bytes, bytes], ...]:
    """Headers whose values a client library lets through: no control characters."""
    found = []
    for _ in range(choices.below(4)):
        value = choices.text((*WORDS, "Bearer ", "none", "http://evil.example", "9" * 30), 600)
        clean = "".join(sign for sign in value if sign >= " " and sign != "\x7f").strip()
        found.append((choices.one(HEADERS).encode(), clean.encode("utf-8", "replace")))
    return tuple(found)


def multipart(choices: Choices, *, damaged_file: bool, number: int) -> tuple[bytes, bytes]:
    """A body and its content type; where the file is not damaged, the rest is right as well."""
    parts: list[tuple[str, str | None, bytes]] = []
    if damaged_file:
        name = choices.text(("a.pdf", "..\\", "C:", "/etc/passwd"), 300).replace('"', "%22")
        parts += [("file", name, damaged.file(number)[1])] * choices.one((1, 1, 1, 0, 2))
        for _ in range(choices.below(5)):
            field = choices.one(("options", "model", "optionalPayload", "pageRanges", "batchId", "file", "x"))
            value = choices.one((b"PaddleOCR-VL-1.6", b"{}", b'{"topP": 7}', b"1-", b"[" * 100_000, b"\xff"))
            parts.append((field, None, value if choices.chance(2) else choices.text(WORDS).encode("utf-8", "replace")))
        parts += [("model", None, b"PaddleOCR-VL-1.6")]
    else:
        parts = [("file", "page.png", samples.save(samples.picture((240, 320)), "PNG"))]
    boundary = b"--" if damaged_file and choices.chance(4) else b"x"
    body = b""
    for field, filename, content in parts:
        file = b'; filename="%s"' % filename.encode("utf-8", "replace") if filename is not None else b""
        head = b'Content-Disposition: form-data; name="%s"%s' % (field.encode(), file)
        body += b"--%s\r\n%s\r\n\r\n%s\r\n" % (boundary, head, content)
    body += b"--%s--\r\n" % boundary
    cut = body[: len(body) // 2] if damaged_file and choices.chance(8) else body
    return cut, b"multipart/form-data; boundary=" + boundary


def vlm_answer(number: int) -> str | tuple[int, str]:
    """What a VLM that lies says to crop `number`: a hostile text, an error, nothing."""
    choices = Choices(random.Random(f"vlm-{number}").randbytes(400))
    if choices.chance(6):
        return choices.one((400, 422, 500, 429, 418)), choices.text(VLM_WORDS, 300)
    text = choices.text(VLM_WORDS, choices.one((200, 3000, 20_000)))
    # A VLM writes UTF-8: lone surrogates come as JSON escapes, which is what the simulated one sends.
    return json.loads(json.dumps(text))
