# SPDX-License-Identifier: Apache-2.0
"""Requests made up from the parser's own OpenAPI description: whatever comes, only 2xx and 4xx, as described.

Runs in the environment ``api`` (schemathesis), the parser in its own. More cases: ``API_EXAMPLES=500``.
"""

from __future__ import annotations

import os

import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.api.answers import check_answer

AS_DESCRIBED = [
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
EXAMPLES = int(os.environ.get("API_EXAMPLES", "10"))


def test_made_up_requests(parser_url):
    """Every operation of the description; test_job_chains has chains of requests about one job."""
    api = schemathesis.openapi.from_url(f"{parser_url}/openapi.json")
    asked = set()

    for result in api.get_all_operations():
        assert isinstance(result, Ok), result
        operation = result.ok()

        @settings(
            max_examples=EXAMPLES,
            derandomize=True,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def ask(case):
            response = case.call(timeout=120)
            check_answer(response)
            case.validate_response(response, checks=AS_DESCRIBED)
            asked.add((case.method.upper(), case.path))

        ask()
    described = {(method.upper(), path) for path, item in api.raw_schema["paths"].items() for method in item}
    assert asked == described and len(asked) > 15
