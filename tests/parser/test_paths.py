# SPDX-License-Identifier: Apache-2.0
"""The table of paths against the routes that the service has."""

from __future__ import annotations

import pytest
from fastapi.routing import APIRoute, iter_route_contexts

from docparser.app import create_app
from docparser.http.paths import JOBS, RULES, needs_key, route_of, rule_of
from docparser.settings import Settings

PERMITTED = "/api/v2/ocr/results/5d41/permission/result.jsonl"


@pytest.fixture(scope="module")
def routes() -> dict[str, set[str]]:
    """Methods by path."""
    found: dict[str, set[str]] = {"/openapi.json": {"GET"}}
    for context in iter_route_contexts(create_app(Settings()).routes):
        if isinstance(context.route, APIRoute):
            found.setdefault(context.path or "", set()).update(context.methods or ())
    return found


def test_each_row_is_a_route(routes: dict[str, set[str]]):
    assert RULES.keys() <= routes.keys()


def test_each_route_that_takes_a_document_has_a_row(routes: dict[str, set[str]]):
    """A new one would else be read without a place at work, a quota and a line in the audit log."""
    posted = {path for path, methods in routes.items() if "POST" in methods}
    assert posted - RULES.keys() == {f"{JOBS}/{{job_id}}/retry"}
    assert all(rule_of(path).document or rule_of(path).makes_job for path in posted & RULES.keys())


@pytest.mark.parametrize(
    ("method", "path", "needed"),
    [
        ("GET", "/", False),
        ("HEAD", "/health/ready", False),
        ("GET", "/docs/clients.md", False),
        ("GET", PERMITTED, False),
        ("DELETE", PERMITTED, True),
        ("GET", "/layout-parsing", False),
        ("POST", "/layout-parsing", True),
        ("POST", "/health", True),
        ("GET", "/metrics", True),
        ("GET", JOBS, True),
        ("GET", "/healthy", True),
    ],
)
def test_what_may_be_read_without_a_key(method: str, path: str, needed: bool):
    assert needs_key(method, path) == needed


def test_metrics_name_routes_and_not_what_a_client_sends():
    class Route:
        path = JOBS + "/{job_id}"

    assert route_of({"path": JOBS + "/7", "route": Route()}) == JOBS + "/{job_id}"
    assert route_of({"path": "/parse"}) == "/parse", "refused before a route was asked"
    assert route_of({"path": "/7"}) == "other"
