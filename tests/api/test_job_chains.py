# SPDX-License-Identifier: Apache-2.0
"""Chains of requests about one job, along the links of the OpenAPI description: submit, then state, events, result, a
page, retry, cancel in any order and with made-up parameters. ``API_CHAINS=200 scripts/test.sh api`` for more of them.

A job moves on by itself, so the same requests may get other answers, and other links, the next time. Hypothesis ends a
campaign that meets this; the next one goes on with another seed.
"""

from __future__ import annotations

import collections
import contextlib
import os
from typing import Any

import hypothesis
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from hypothesis.errors import Flaky
from hypothesis.stateful import run_state_machine_as_test

from tests.api.answers import check_answer

CHAINS = int(os.environ.get("API_CHAINS") or 8)
# A PDF of one blank page of 100 x 140 points.
ONE_PAGE = (
    "JVBERi0xLjQKMSAwIG9iago8PCAvVHlwZSAvQ2F0YWxvZyAvUGFnZXMgMiAwIFIgPj4KZW5kb2JqCjIgMCBvYmoKPDwgL1R5cGUgL1BhZ2VzIC"
    "9LaWRzIFszIDAgUl0gL0NvdW50IDEgPj4KZW5kb2JqCjMgMCBvYmoKPDwgL1R5cGUgL1BhZ2UgL1BhcmVudCAyIDAgUiAvTWVkaWFCb3ggWzAg"
    "MCAxMDAgMTQwXSA+PgplbmRvYmoKeHJlZgowIDQKMDAwMDAwMDAwMCA2NTUzNSBmIAowMDAwMDAwMDA5IDAwMDAwIG4gCjAwMDAwMDAwNTggMD"
    "AwMDAgbiAKMDAwMDAwMDExNSAwMDAwMCBuIAp0cmFpbGVyCjw8IC9TaXplIDQgL1Jvb3QgMSAwIFIgID4+CnN0YXJ0eHJlZgoxODYKJSVFT0YK"
)
STEPS = 8  # requests of a chain
CAMPAIGNS = 30  # at most
JOBS = "/api/v2/ocr/jobs"


def test_chains_of_requests_about_jobs(parser_url):
    api = schemathesis.openapi.from_url(f"{parser_url}/openapi.json").include(path_regex=f"^{JOBS}")
    # Without keys there is no list: schemathesis would begin all chains with it.
    api = api.exclude(operation_id="listJobs")
    asked: collections.Counter[tuple[str, str, int]] = collections.Counter()
    chained: collections.Counter[str] = collections.Counter()
    submitted: set[str] = set()
    broken: list[AssertionError] = []
    chains = 0

    machine: Any = api.as_state_machine()

    class Chains(machine):
        def teardown(self) -> None:
            nonlocal chains
            chains += 1
            super().teardown()

        def before_call(self, case: Any) -> None:
            """Two of three submissions are right: a made-up document is refused, and the chain ends."""
            if (case.method.upper(), case.path) == ("POST", JOBS) and sum(asked.values()) % 3:
                case.media_type = "application/json"
                case.body = {"model": "PaddleOCR-VL-1.6", "fileUrl": "data:application/pdf;base64," + ONE_PAGE}

        def get_call_kwargs(self, case: Any) -> dict[str, Any]:
            return {"timeout": 120}

        def validate_response(self, response: Any, case: Any, **options: Any) -> None:
            try:
                check_answer(response)
            except AssertionError as error:
                broken.append(error)
                raise
            asked[case.method.upper(), case.path, response.status_code] += 1
            if (case.method.upper(), case.path) == ("POST", JOBS) and response.status_code == 200:
                submitted.add(response.json()["data"]["jobId"])
            elif (case.path_parameters or {}).get("job_id") in submitted:
                chained[f"{case.method.upper()} {case.path}"] += 1

    quiet = settings(
        max_examples=CHAINS,
        stateful_step_count=STEPS,
        phases=[Phase.generate],
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    for seed in range(CAMPAIGNS):
        with contextlib.suppress(Flaky):
            run_state_machine_as_test(hypothesis.seed(seed)(Chains), settings=quiet)
        assert not broken, broken[0]
        if chains >= CHAINS:
            break
    print(dict(chained), chains, sum(asked.values()))
    assert chains >= CHAINS
    wanted = {f"GET {JOBS}/{{job_id}}", f"GET {JOBS}/{{job_id}}/result", f"DELETE {JOBS}/{{job_id}}"}
    assert wanted <= set(chained), "the links were followed"


def test_every_link_names_an_operation(parser_url):
    description = schemathesis.openapi.from_url(f"{parser_url}/openapi.json").raw_schema
    operations = {one["operationId"] for path in description["paths"].values() for one in path.values()}
    links = description["paths"][JOBS]["post"]["responses"]["200"]["links"]
    assert len(links) == 6 and {link["operationId"] for link in links.values()} <= operations
