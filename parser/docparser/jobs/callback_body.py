# SPDX-License-Identifier: Apache-2.0
"""What a callback says: that a job ended, how, and where its results are. No content, and no name of a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from docparser.jobs.result import describe, timestamp
from docparser.jobs.storage.callback_queue import CallbackState, Delivery, Told
from docparser.jobs.storage.states import Job, JobState

Path = Callable[[str, str], str]
"""Job id and name -> the address of a result below the service's root."""


def body(delivery: Delivery, path: Path, public_url: str) -> bytes:
    """The JSON: ``type``, ``timestamp`` (of the job's end) and ``data``, which is that of the job's state."""
    job, counts = delivery.job, delivery.counts
    assert job.callback is not None, "only jobs with one have deliveries"
    base = (public_url or job.callback["base"]).rstrip("/")
    result = base + path(job.id, "result.jsonl")
    done = job.state is JobState.DONE
    data = describe(job, counts, None, result if done else None)
    del data["fileName"]
    if counts.ended and not done:
        data["docparser"]["partialUrl"] = result
    told = {"type": f"job.{delivery.event}", "timestamp": timestamp(job.finished or delivery.created), "data": data}
    return json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def describe_told(job: Job, told: Told | None) -> dict[str, Any] | None:
    """``docparser.callback`` of the job's state: what became of its newest callback; None for a job without one."""
    if job.callback is None:
        return None
    if told is None:
        return {"state": "waiting", "attempts": 0}
    found: dict[str, Any] = {"type": f"job.{told.event}", "state": str(told.state), "attempts": told.attempts}
    if told.attempts and told.state is not CallbackState.OVER:
        found["lastStatus"] = told.status
    if told.error:
        found["lastError"] = told.error
    if told.state is CallbackState.QUEUED and told.attempts:
        found["nextTime"] = timestamp(told.not_before)
    return found
