# SPDX-License-Identifier: Apache-2.0
"""Holds answers to the parser's OpenAPI description, more strictly than a client would: an object has no member that
its schema does not name, unless the schema says that it may."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
from jsonschema import Draft202012Validator

JSON = "application/json"
DATA = re.compile(r"^data: (.*)$", re.MULTILINE)


def closed(value: Any) -> Any:
    """The description with every object closed."""
    if isinstance(value, list):
        return [closed(item) for item in value]
    if not isinstance(value, dict):
        return value
    value = {key: closed(item) for key, item in value.items()}
    if value.get("type") == "object" and isinstance(value.get("properties"), dict):
        value.setdefault("additionalProperties", False)
    return value


class Described:
    """``seen`` collects what was held to it: operationIds with statuses and media types."""

    def __init__(self, description: dict[str, Any]) -> None:
        self.description = description
        self._components = {"components": closed(description["components"])}
        self.operations = {
            operation["operationId"]: operation for item in description["paths"].values() for operation in item.values()
        }
        self.seen: set[tuple[str, int, str]] = set()

    def check_schema(self, schema: dict[str, Any], value: Any) -> None:
        errors = sorted(
            Draft202012Validator(self._components | schema).iter_errors(value),
            key=lambda error: list(map(str, error.absolute_path)),
        )
        assert not errors, [f"{error.json_path}: {error.message[:300]}" for error in errors[:5]]

    def check(self, operation: str, response: httpx.Response) -> httpx.Response:
        """Fails unless status, media type, headers and content are as described; returns the response."""
        answers = self.operations[operation]["responses"]
        status = str(response.status_code)
        assert status in answers, f"{operation} answers {status}: {response.text[:300]}"
        kind = response.headers["Content-Type"].partition(";")[0]
        content = answers[status]["content"]
        assert kind in content, f"{operation} answers {status} with {kind}"
        self.seen.add((operation, response.status_code, kind))
        assert response.headers["X-Request-Id"], "every answer has it"
        if response.status_code in (429, 503, 507):
            assert "Retry-After" in response.headers and "Retry-After" in answers[status]["headers"]
        schema = content[kind]["schema"]
        if kind == JSON:
            self.check_schema(schema, response.json())
        elif inside := schema.get("contentSchema"):
            for text in response.text.splitlines() if "ndjson" in kind else DATA.findall(response.text):
                if text != "[DONE]":
                    self.check_schema(inside, json.loads(text))
        return response
