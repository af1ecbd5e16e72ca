# SPDX-License-Identifier: Apache-2.0
"""What the job API takes from a request: the client, and the address by which it reaches this service."""

from __future__ import annotations

from fastapi import Request

from docparser.http.clients import client_of
from docparser.jobs.service import JobService


def jobs_of(request: Request) -> JobService:
    return request.app.state.jobs


def identity(request: Request) -> tuple[str, str]:
    """The client: ``owner``, whose jobs it may see, and ``flow``, which takes turns with those of other clients.

    With API keys both are the key's id. Without, everyone who knows a job's id may see the job.
    """
    return getattr(request.state, "key_id", ""), client_of(request)


def base_url(request: Request) -> str:
    """This service's address as the client reaches it, without a slash at its end."""
    return str(request.app.state.settings.public_url or request.base_url).rstrip("/")


def result_url(request: Request, job_id: str, name: str = "result.jsonl") -> str:
    """The signed address of a job's result, or of one of its pictures, as this client can reach it."""
    return base_url(request) + jobs_of(request).links.path(job_id, name)
