# SPDX-License-Identifier: Apache-2.0
"""The pages for people: the web page at ``/``, whose files lie in ``web/static``, and Swagger UI at ``/docs``.

The web page shows documents of strangers, so a policy keeps the browser from running or loading anything but these
files (Content Security Policy Level 3). The Markdown is sanitised as well.

FastAPI's own page for the API loads its files from a public network. Here they come from the package
``fastapi_swagger``, so that the page works on sites without a network, and a policy keeps the browser from asking
anybody else.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from importlib import resources
from pathlib import Path

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse
from starlette.exceptions import HTTPException

STATIC = Path(__file__).resolve().parents[1] / "web" / "static"
OF_BOTH = (
    "default-src 'none'",
    "style-src 'self'",
    "connect-src 'self'",
    "form-action 'none'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
)
POLICY = "; ".join(
    (
        *OF_BOTH,
        "script-src 'self'",
        "img-src 'self' data: blob:",
        "font-src 'self'",
        "require-trusted-types-for 'script'",
        "trusted-types dompurify",
    )
)
PAGE_HEADERS = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",  # the browser asks each time, and mostly gets 304
}
FILE_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".woff2": "font/woff2",
    ".txt": "text/plain; charset=utf-8",
    ".md": "text/plain; charset=utf-8",
}

# What there is: an address is looked up here, never on the disk.
FILES = {path.relative_to(STATIC).as_posix(): path for path in STATIC.rglob("*") if path.suffix in FILE_TYPES}

router = APIRouter(include_in_schema=False)
READ = ["GET", "HEAD"]


@router.api_route("/", methods=READ)
async def index() -> Response:
    return _file("index.html")


@router.api_route("/ui/{path:path}", methods=READ)
async def page_asset(path: str) -> Response:
    return _file(path)


def _file(path: str) -> Response:
    file = FILES.get(path)
    if file is None:
        raise HTTPException(404)
    return FileResponse(file, media_type=FILE_TYPES[file.suffix], headers=PAGE_HEADERS)


SWAGGER_TYPES = {
    "swagger-ui-bundle.js": "text/javascript; charset=utf-8",
    "swagger-ui.css": "text/css; charset=utf-8",
    "favicon-32x32.png": "image/png",
}
SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)
SWAGGER_HEADERS = {"Referrer-Policy": "no-referrer", "Cache-Control": "no-cache"}


@router.api_route("/docs", methods=READ)
async def docs(request: Request) -> HTMLResponse:
    page, policy = _docs_page(request.app.title)
    return HTMLResponse(page, headers=SWAGGER_HEADERS | {"Content-Security-Policy": policy})


@router.api_route("/openapi.json", methods=READ)
async def description(request: Request) -> Response:
    return Response(_description(request.app), media_type="application/json")


@router.api_route("/docs/{name}", methods=READ)
async def docs_asset(name: str) -> Response:
    if name not in SWAGGER_TYPES:
        raise HTTPException(404)
    return Response(_read(name), media_type=SWAGGER_TYPES[name], headers=SWAGGER_HEADERS)


@functools.cache
def _docs_page(title: str) -> tuple[str, str]:
    """The page and its policy. Addresses are relative, so that the page also works behind a proxy with a path."""
    body = get_swagger_ui_html(
        openapi_url="openapi.json",
        title=title,
        swagger_js_url="docs/swagger-ui-bundle.js",
        swagger_css_url="docs/swagger-ui.css",
        swagger_favicon_url="docs/favicon-32x32.png",
        swagger_ui_parameters={"validatorUrl": None, "defaultModelsExpandDepth": 2},
    ).body
    page = bytes(body).decode()
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in SCRIPT.findall(page)]
    scripts = " ".join(f"'sha256-{digest}'" for digest in hashes)
    return page, "; ".join((*OF_BOTH, f"script-src 'self' {scripts}", "img-src 'self' data:"))


@functools.lru_cache(maxsize=1)
def _description(app: FastAPI) -> bytes:
    """Written once: it takes 3 ms, and whoever reaches the port may ask for it."""
    return bytes(JSONResponse(app.openapi()).body)


@functools.cache
def _read(name: str) -> bytes:
    return resources.files("fastapi_swagger.resources").joinpath(name).read_bytes()
