# SPDX-License-Identifier: Apache-2.0
"""What the service must know of a path before a route is asked: one row for each path that differs from the rest.

A path without a row needs a key, is logged, and holds none of the places at work.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from starlette.types import Scope

JOBS = "/api/v2/ocr/jobs"
RETRY = re.compile(JOBS + "/[^/]+/retry")
OTHER = "other"


@dataclass(frozen=True)
class PathRule:
    """``public``: reading it needs no key. ``probe``: load balancers ask it, under whatever host name they write;
    nothing can be learned or changed there. ``quiet``: it is in no log. Of a POST: ``document`` is in the audit log,
    ``costly`` holds a place at work, ``reads`` and ``makes_job`` count towards quotas of pages and jobs."""

    public: bool = False
    probe: bool = False
    quiet: bool = False
    document: bool = False
    costly: bool = False
    reads: bool = False
    makes_job: bool = False


REST = PathRule()
# A page that asks for a key itself, or what it shows of the API, which is no secret.
SHOWN = PathRule(public=True)
PROBE = PathRule(public=True, probe=True, quiet=True)
READS = PathRule(document=True, costly=True, reads=True)
MAKES_JOB = PathRule(makes_job=True)
RULES = {
    "/": SHOWN,
    "/docs": SHOWN,
    "/openapi.json": SHOWN,
    "/health": PROBE,
    "/health/ready": PROBE,
    "/metrics": PathRule(quiet=True),
    # Clients probe it with GET and expect 405.
    "/layout-parsing": PathRule(public=True, document=True, costly=True, reads=True),
    "/restructure-pages": PathRule(document=True, costly=True),
    "/parse": READS,
    "/v1/chat/completions": READS,
    "/v1/ocr": READS,
    "/v1/files": PathRule(document=True),
    "/v1/convert/source": READS,
    "/v1/convert/file": READS,
    "/v1/convert/source/async": MAKES_JOB,
    "/v1/convert/file/async": MAKES_JOB,
    JOBS: MAKES_JOB,
}
# The last one: results of jobs are fetched by addresses that cannot be guessed.
SHOWN_BELOW = ("/ui/", "/docs/", "/api/v2/ocr/results/")


def rule_of(path: str) -> PathRule:
    return RULES.get(path) or (SHOWN if path.startswith(SHOWN_BELOW) else REST)


def needs_key(method: str, path: str) -> bool:
    return not (rule_of(path).public and method in ("GET", "HEAD", "OPTIONS"))


def route_of(scope: Scope) -> str:
    """The path for metrics: a route's, with the names of its parameters. A client chooses none."""
    route = getattr(scope.get("route"), "path", "")
    return route or (scope["path"] if scope["path"] in RULES else OTHER)


def shown_path(path: str) -> str:
    """The path for logs: without the signature that permits to fetch a job's result, and cut to a length."""
    return re.sub(r"(/api/v2/ocr/results/[^/]*/)[^/]*", r"\1…", path)[:200]
