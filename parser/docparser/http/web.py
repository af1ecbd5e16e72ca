# SPDX-License-Identifier: Apache-2.0
"""``GET /`` and ``/ui``: the web page's files, as they lie in ``docparser/web/static``.

The page shows documents of strangers, so a policy keeps the browser from running or loading anything but these files
(Content Security Policy Level 3). The Markdown is sanitised as well.
"""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, Response
from fastapi.responses import FileResponse
from starlette.exceptions import HTTPException

STATIC = Path(__file__).resolve().parents[1] / "web" / "static"
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'none'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types dompurify",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",  # the browser asks each time, and mostly gets 304
}
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
    ".txt": "text/plain; charset=utf-8",
    ".md": "text/plain; charset=utf-8",
}

# What there is: an address is looked up here, never on the disk.
FILES = {path.relative_to(STATIC).as_posix(): path for path in STATIC.rglob("*") if path.suffix in TYPES}

router = APIRouter(include_in_schema=False)


@router.get("/")
async def index() -> Response:
    return _file("index.html")


@router.get("/ui/{path:path}")
async def asset(path: str) -> Response:
    return _file(path)


def _file(path: str) -> Response:
    file = FILES.get(path)
    if file is None:
        raise HTTPException(404)
    return FileResponse(file, media_type=TYPES[file.suffix], headers=HEADERS)
