# SPDX-License-Identifier: Apache-2.0
"""``GET /docs``: Swagger UI over the service's OpenAPI description.

FastAPI's own page loads its files from a public network. Here they come from the package ``fastapi_swagger``, so that
the page works on sites without a network, and a Content Security Policy keeps the browser from asking anybody else.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from importlib import resources
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse
from starlette.exceptions import HTTPException

router = APIRouter(include_in_schema=False)

# What "Authorize" on the page asks for. The page and the description hold no secrets, so no key is needed to see them.
SCHEMES = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "Your operator's key; none is needed where there is none.",
    },
    "apiKey": {"type": "apiKey", "in": "header", "name": "X-Api-Key", "description": "The same, in another header."},
}


def describe(app: FastAPI) -> None:
    """Make the OpenAPI description name the ways to send a key."""
    usual = app.openapi

    def openapi() -> dict[str, Any]:
        description = usual()
        description.setdefault("components", {})["securitySchemes"] = SCHEMES
        description["security"] = [{}, *({name: []} for name in SCHEMES)]
        return description

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way to extend the description


TYPES = {
    "swagger-ui-bundle.js": "text/javascript; charset=utf-8",
    "swagger-ui.css": "text/css; charset=utf-8",
    "favicon-32x32.png": "image/png",
}
SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)
SAFE = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-cache"}


@router.get("/docs")
async def docs(request: Request) -> HTMLResponse:
    page, policy = _page(request.app.title)
    return HTMLResponse(page, headers=SAFE | {"Content-Security-Policy": policy})


@router.get("/docs/{name}")
async def asset(name: str) -> Response:
    if name not in TYPES:
        raise HTTPException(404)
    return Response(_read(name), media_type=TYPES[name], headers=SAFE)


@functools.cache
def _page(title: str) -> tuple[str, str]:
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
    policy = (
        "default-src 'none'",
        "script-src 'self' " + " ".join(f"'sha256-{digest}'" for digest in hashes),
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'none'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
    return page, "; ".join(policy)


@functools.cache
def _read(name: str) -> bytes:
    return resources.files("fastapi_swagger.resources").joinpath(name).read_bytes()
