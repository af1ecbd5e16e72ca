# SPDX-License-Identifier: Apache-2.0
"""Requests made up from the parser's own OpenAPI description: whatever comes, only 2xx and 4xx.

Runs in the environment ``api`` (schemathesis), the parser in its own. More cases: ``API_EXAMPLES=500``.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PYTHON = Path(os.environ.get("ENVS_DIR", ROOT / ".venvs")) / "parser" / "bin" / "python"
EXAMPLES = int(os.environ.get("API_EXAMPLES", "25"))


@pytest.fixture(scope="session")
def parser_url(tmp_path_factory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("parser")
    with (folder / "start.log").open("wb") as log:
        process = subprocess.Popen(
            [str(PYTHON), str(HERE / "parser_for_requests.py"), str(folder)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
        )  # fmt: skip
        try:
            url = process.stdout.readline().strip()
            assert url, (folder / "start.log").read_text()[-3000:]
            yield url
        finally:
            process.stdin.close()
            process.wait(60)


# One request, one answer; streams of events have no end to wait for.
ASKED = "^/(layout-parsing|restructure-pages|health|health/ready|metrics)$"


def test_made_up_requests(parser_url):
    api = schemathesis.openapi.from_url(f"{parser_url}/openapi.json").include(path_regex=ASKED)
    asked = set()

    for result in api.get_all_operations():
        operation = result.ok()

        @settings(
            max_examples=EXAMPLES, derandomize=True, deadline=None, database=None,
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(case=operation.as_strategy())
        def ask(case):
            response = case.call(timeout=120)
            assert response.status_code < 500, f"{response.status_code} {response.text[:300]}"
            if response.status_code >= 400:
                assert response.json()["errorCode"] == response.status_code
            asked.add((case.method.upper(), case.path))

        ask()
    assert {("POST", "/layout-parsing"), ("POST", "/restructure-pages"), ("GET", "/health/ready")} <= asked
