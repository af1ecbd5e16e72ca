# SPDX-License-Identifier: Apache-2.0
"""``GET /docs``: the OpenAPI description as one plain page.

FastAPI's own page loads its scripts from a public network, which an air-gapped site cannot reach and should not ask.
"""

from __future__ import annotations

from html import escape
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

router = APIRouter(include_in_schema=False)

STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}
h2{margin-top:2.5rem;border-bottom:1px solid #ccc}code{background:#f2f2f2;padding:.1em .3em;border-radius:3px}
table{border-collapse:collapse;width:100%}
td,th{border:1px solid #ddd;padding:.3em .6em;text-align:left;vertical-align:top}
"""


@router.get("/docs")
async def docs(request: Request) -> HTMLResponse:
    return HTMLResponse(render(request.app.openapi()))


def render(api: dict[str, Any]) -> str:
    """The page for an OpenAPI 3.1 description."""
    info = api["info"]
    parts = [
        f"<h1>{escape(info['title'])} {escape(info['version'])}</h1>",
        f"<p>{_text(info.get('description', ''))} Machine-readable: <a href='/openapi.json'>/openapi.json</a>.</p>",
    ]
    schemas = api.get("components", {}).get("schemas", {})
    for path, methods in api["paths"].items():
        for method, operation in methods.items():
            parts.append(
                f"<h2>{method.upper()} <code>{escape(path)}</code></h2><p>{_text(operation.get('description', ''))}</p>"
            )
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            if "$ref" in body:
                parts.append(_fields(schemas[_name(body)], schemas))
            answers = "".join(
                f"<tr><td>{escape(status)}</td><td>{_text(answer.get('description', ''))}</td></tr>"
                for status, answer in operation["responses"].items()
            )
            parts.append(f"<table><tr><th>status</th><th>meaning</th></tr>{answers}</table>")
    head = f"<meta charset=utf-8><title>{escape(info['title'])}</title><style>{STYLE}</style>"
    return f"<!doctype html><html lang=en>{head}<body>{''.join(parts)}</body></html>"


def _fields(schema: dict, schemas: dict) -> str:
    required = schema.get("required", ())
    rows = "".join(
        f"<tr><td><code>{escape(name)}</code>{' (required)' if name in required else ''}</td>"
        f"<td>{escape(_type(field, schemas))}</td><td>{escape(str(field.get('default', '')))}</td>"
        f"<td>{_text(field.get('description', ''))}</td></tr>"
        for name, field in schema.get("properties", {}).items()
    )
    head = "<tr><th>field</th><th>type</th><th>default</th><th></th></tr>"
    return f"<p>{_text(schema.get('description', ''))}</p><table>{head}{rows}</table><p></p>"


def _type(field: dict, schemas: dict) -> str:
    """A short name for a JSON schema: types, bounds and choices."""
    if "$ref" in field:
        properties = schemas[_name(field)].get("properties", {})
        return f"{_name(field)} {{{', '.join(properties)}}}"
    if "anyOf" in field:
        return " or ".join(_type(choice, schemas) for choice in field["anyOf"] if choice.get("type") != "null")
    if "enum" in field or "const" in field:
        return " | ".join(str(choice) for choice in field.get("enum", [field.get("const")]))
    if field.get("type") == "array":
        items = field.get("prefixItems")
        inside = (
            ", ".join(_type(item, schemas) for item in items)
            if items
            else _type(field.get("items", {}), schemas) + ", ..."
        )
        return f"[{inside}]"
    if (
        field.get("type") == "object"
        and "additionalProperties" in field
        and isinstance(field["additionalProperties"], dict)
    ):
        return f"{{key: {_type(field['additionalProperties'], schemas)}}}"
    bounds = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
    limits = "".join(f" {sign} {field[key]:g}" for key, sign in bounds.items() if key in field)
    return field.get("type", "any") + limits


def _name(reference: dict) -> str:
    return reference["$ref"].rsplit("/", 1)[1]


def _text(words: str) -> str:
    """Escaped, with `code` marked."""
    pieces = escape(words).split("`")
    return "".join(f"<code>{piece}</code>" if index % 2 else piece for index, piece in enumerate(pieces))
