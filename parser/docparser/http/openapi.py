# SPDX-License-Identifier: Apache-2.0
"""The OpenAPI description: what FastAPI finds in the routes, the schemas of answers, and what holds for all operations.

A route names its answers (``shows``) and those errors that are its own. ``describe`` adds the errors, headers and keys
of every operation. Nothing here is asked while a request is answered, and nothing is made before somebody wants the
description.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Union, cast

from fastapi import FastAPI
from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from docparser.errors import InvalidRequest
from docparser.http.errors import error_body, family_of, status_of
from docparser.http.paths import JOBS, needs_key, rule_of
from docparser.settings import Settings

SHOWN: set[type] = set()  # what `ref` named: FastAPI makes only the schemas of what routes take
TAGS = {
    "parsing": "A document in, its text out, in one request.",
    "openai": "The same by the OpenAI API.",
    "mistral": "The same by Mistral's OCR API.",
    "docling": "The same by docling-serve's API.",
    "jobs": "Long documents: progress, single pages, results that outlive a restart.",
    "health": "What the service says of itself.",
}
# What "Authorize" on the page asks for. The page and the description hold no secrets, so no key is needed to see them.
SCHEMES = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "Your operator's key; a service without keys needs none.",
    },
    "apiKey": {"type": "apiKey", "in": "header", "name": "X-Api-Key", "description": "The same, in another header."},
}
HEADERS: dict[str, dict[str, Any]] = {
    "X-Request-Id": {
        "description": "The request's id, as the client sent it or made here; the log has it.",
        "schema": {"type": "string"},
    },
    "Retry-After": {"description": "Seconds until another try makes sense.", "schema": {"type": "integer"}},
    "X-Should-Retry": {
        "description": "`false`: another try takes as long again.",
        "schema": {"type": "string", "enum": ["false"]},
    },
    "WWW-Authenticate": {"description": "How to send a key.", "schema": {"type": "string"}},
    "Content-Disposition": {"description": "A name for the file.", "schema": {"type": "string"}},
    "Document-Pages": {"description": "How many pages the document has.", "schema": {"type": "integer"}},
    "Document-Partial": {
        "description": "The pages where something is missing or cut, like `3,9-14`; left out if there are none. JSON "
        "says what, and why.",
        "schema": {"type": "string"},
    },
    "Document-Notes": {
        "description": "Options without effect, and what there is to say of pages, as a JSON list of sentences; left "
        "out if there are none.",
        "schema": {"type": "string"},
    },
}
REQUEST_ID = {
    "name": "X-Request-Id",
    "in": "header",
    "description": "An id of the client's, for the log; of another form, it counts as none.",
    "schema": {"type": "string", "pattern": "^[A-Za-z0-9._:-]{1,64}$", "maxLength": 64},
}
EXAMPLES = {
    "Error": "/parse",
    "JobError": JOBS,
    "OpenAiError": "/v1/models",
    "OcrError": "/v1/ocr",
    "DoclingError": "/v1/convert/file",
}
LATER = ("429", "503", "507")


def about(settings: Settings) -> dict[str, Any]:
    """Arguments of FastAPI that only the description shows."""
    servers = [{"url": "/", "description": "The service that sent this description."}]
    if settings.public_url:
        servers.append({"url": str(settings.public_url).rstrip("/"), "description": "Its address for clients."})
    return {
        "title": "Document parser",
        "description": "PaddleOCR-VL behind PaddleX's `/layout-parsing` contract: "
        "images and PDFs to Markdown and JSON.",
        "contact": {"name": "The operator of this service"},
        "license_info": {"name": "Apache License 2.0", "identifier": "Apache-2.0"},
        "servers": servers,
        "openapi_tags": [{"name": name, "description": words} for name, words in TAGS.items()],
    }


def ref(model: type) -> dict[str, str]:
    """``describe`` makes the schema of ``model``; the types inside it come along."""
    SHOWN.add(model)
    return {"$ref": f"#/components/schemas/{model.__name__}"}


def shows(
    words: str,
    model: type | None = None,
    example: Any = None,
    *,
    other: dict[str, Any] | None = None,
    headers: tuple[str, ...] = (),
) -> dict[str, Any]:
    """A response with JSON of ``model``; ``other`` are further media types with their schemas, ``headers`` of
    HEADERS."""
    content: dict[str, Any] = {}
    if model is not None:
        content["application/json"] = {"schema": ref(model)} | ({"example": example} if example is not None else {})
    content |= {kind: {"schema": schema} for kind, schema in (other or {}).items()}
    return {"description": words, "content": content, "headers": _named(headers)}


def _named(headers: Iterable[str]) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in headers}


def as_text(words: str, *lines: type) -> dict[str, Any]:
    """A schema of text. ``lines``: what each of its lines or events is as JSON."""
    schema: dict[str, Any] = {"type": "string", "description": words}
    if lines:
        inside = [ref(line) for line in lines]
        schema["contentMediaType"] = "application/json"
        schema["contentSchema"] = inside[0] if len(inside) == 1 else {"anyOf": inside}
    return schema


BINARY = {"type": "string", "format": "binary"}
TOOK_TOO_LONG = {"description": "The document took longer than this service allows."}


def example_body(example: dict[str, Any]) -> dict[str, Any]:
    """What a route adds to the JSON body that FastAPI finds."""
    return {"requestBody": {"content": {"application/json": {"example": example}}}}


class _Schemas(GenerateJsonSchema):
    """Without titles, which repeat names."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def form_parts(model: type[BaseModel]) -> dict[str, Any]:
    """The fields of ``model`` as parts of a form, where nothing is null."""
    parts = model.model_json_schema(schema_generator=_Schemas)["properties"]
    for part in parts.values():
        part |= next((kind for kind in part.pop("anyOf", ()) if kind != {"type": "null"}), {})
        if part.get("default", ...) is None:
            del part["default"]
    return parts


def form_content(required: list[str], **parts: dict[str, Any]) -> dict[str, Any]:
    """The content of a request that is a form: its parts by their names."""
    return {"multipart/form-data": {"schema": {"type": "object", "required": required, "properties": parts}}}


def describe(app: FastAPI) -> None:
    """Make the description whole; it is made once."""
    usual = app.openapi

    def openapi() -> dict[str, Any]:
        made = app.openapi_schema is not None
        description = usual()
        if not made:
            _complete(description)
        return description

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way to extend the description


def _complete(description: dict[str, Any]) -> None:
    components = description.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for never_sent in ("HTTPValidationError", "ValidationError"):  # FastAPI's own
        schemas.pop(never_sent, None)
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            _complete_operation(path, method.upper(), operation)
    every = cast(Any, Union[tuple(SHOWN)])  # noqa: UP007  # it is made from a tuple
    made = TypeAdapter(every).json_schema(ref_template="#/components/schemas/{model}", schema_generator=_Schemas)
    schemas = made["$defs"] | schemas
    for name, path in EXAMPLES.items():
        status = status_of(InvalidRequest, path)
        words = "file: not base64 (Incorrect padding)"
        example = {**error_body(status, words, "1f0c"), **family_of(path).fields(status, words)}
        schemas[name]["examples"] = [example]
    components["schemas"] = dict(sorted(schemas.items()))
    components["headers"] = HEADERS
    components["parameters"] = {"X-Request-Id": REQUEST_ID}
    components["securitySchemes"] = SCHEMES
    description["security"] = [{}, *({name: []} for name in SCHEMES)]


def _complete_operation(path: str, method: str, operation: dict[str, Any]) -> None:
    responses = operation["responses"]
    if "HTTPValidationError" in str(responses.get("422")):
        del responses["422"]
    asks = "requestBody" in operation
    for status, words in _errors(path, method, asks, "parameters" in operation):
        responses.setdefault(str(status), {"description": words})
    for status, response in responses.items():
        headers = ["X-Request-Id"]
        if status >= "400":
            response.setdefault("content", {"application/json": {"schema": ref(family_of(path).error)}})
            headers += ["Retry-After"] if status in LATER else []
            headers += ["WWW-Authenticate"] if status == "401" else []
            headers += family_of(path).headers.get(int(status), ())
        response["headers"] = response.get("headers", {}) | _named(headers)
    operation["responses"] = dict(sorted(responses.items()))
    if asks:
        operation.setdefault("parameters", []).append({"$ref": "#/components/parameters/X-Request-Id"})


def _errors(path: str, method: str, has_body: bool, has_parameters: bool) -> Iterator[tuple[int, str]]:
    """Statuses that every operation of this kind may have, and their meanings."""
    if rule_of(path).probe:
        yield 400, "`Content-Length` came together with `Transfer-Encoding`."
        return
    keyed = needs_key(method, path)
    if has_body or has_parameters:
        yield status_of(InvalidRequest, path), "A field is wrong, or the document cannot be read; the message names it."
    yield 400, "`Host` is no host name, or the body is nested too deeply or has too many values."
    if keyed:
        yield 401, "A key is needed, and none was sent that is known and has not expired."
    if method in ("POST", "DELETE"):
        yield 403, "A web page of another origin sent this."
    if has_body:
        yield 413, "The document, or what a conversion of it needs, exceeds a limit of this service."
        yield 415, "The body is compressed (`Content-Encoding`)."
    yield 421, "The service does not answer under this host name."
    if keyed or has_body:
        yield 429, "A quota is used up, or there is no room for more requests."
    yield 500, "The parser failed; the operator finds the details in its log under logId."
    yield 503, "The service cannot answer now: it stops, its disk is full, or a service that it needs is away."
