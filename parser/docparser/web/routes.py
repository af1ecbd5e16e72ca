# SPDX-License-Identifier: Apache-2.0
"""``GET /`` and ``/ui``: the web page's files, as they lie in ``static``.

The page shows what strangers wrote, so the browser is told to run and load nothing but these files (Content Security
Policy Level 3); the Markdown is sanitised all the same.
"""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, Response
from fastapi.responses import FileResponse
from starlette.exceptions import HTTPException

STATIC = Path(__file__).resolve().parent / "static"
POLICY = "; ".join((
    "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' data: blob:", "font-src 'self'",
    "connect-src 'self'", "form-action 'none'", "base-uri 'none'", "frame-ancestors 'none'",
    "require-trusted-types-for 'script'", "trusted-types dompurify",
))  # fmt: skip
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",  # asked again each time, answered with 304
}
TYPES = {
    ".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8", ".svg": "image/svg+xml", ".woff2": "font/woff2",
    ".txt": "text/plain; charset=utf-8", ".md": "text/plain; charset=utf-8",
}  # fmt: skip

router = APIRouter(include_in_schema=False)


@router.get("/")
async def index() -> Response:
    return _file("index.html")


@router.get("/ui/{path:path}")
async def asset(path: str) -> Response:
    return _file(path)


def _file(path: str) -> Response:
    file = (STATIC / path).resolve()
    if not file.is_relative_to(STATIC) or not file.is_file() or file.suffix not in TYPES:
        raise HTTPException(404)
    return FileResponse(file, media_type=TYPES[file.suffix], headers=HEADERS)
