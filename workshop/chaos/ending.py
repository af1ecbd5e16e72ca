# SPDX-License-Identifier: Apache-2.0
"""After the trouble: every accepted job is fetched and judged, then all of it is purged and the bundle is measured."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from urllib.parse import urlsplit

from chaos.bundle_project import Bundle
from chaos.documents import Readings
from chaos.http_client import Answer, Away, ask
from chaos.jobs import JOBS, Job, look
from chaos.journal import Journal
from chaos.judge import Verdict, causes, judge_pages, of_lines
from chaos.resources import Tolerance, Usage, grown, measured

# A job that nothing happens to for so long, while the bundle is ready, is stuck. A page that holds two workers until
# they are replaced (PARSER_STEP_TIMEOUT_S) is not.
STUCK_S = 420.0
SETTLE_S = 180.0


def persistent(url: str, method: str, path: str, journal: Journal, tries: int = 5) -> Answer | None:
    """An answer after the trouble; nobody answering several times is a violation."""
    words = ""
    for _ in range(tries):
        try:
            return ask(url, method, path, timeout=60)
        except Away as error:
            words = str(error)
            time.sleep(2)
    journal.violation("no answer after the trouble", f"{method} {path}: {words}")
    return None


def wait_for_jobs(url: str, jobs: Sequence[Job], journal: Journal, stuck_s: float = STUCK_S) -> None:
    """Until every job has ended or none has moved for `stuck_s`, which is a violation for each that is left."""
    seen: dict[str, object] = {}
    moved = time.monotonic()
    while True:
        waiting = [job for job in jobs if not job.ended]
        for job in waiting:
            look(url, job, journal)
            progress = (job.state.get("state"), json.dumps((job.state.get("docparser") or {}).get("pages")))
            if seen.get(job.id) != progress:
                seen[job.id], moved = progress, time.monotonic()
        if not waiting:
            return
        if time.monotonic() - moved > stuck_s:
            for job in waiting:
                waits = (job.state.get("docparser") or {}).get("waitsFor", "")
                journal.violation("job stuck", f"{job.id}: {job.state.get('state')}, {waits or 'waits for nothing'}")
            return
        time.sleep(1)


def lines_of(url: str, job: Job, journal: Journal) -> list[dict] | None:
    """The job's result, by the address that its state names."""
    address = (job.state.get("resultUrl") or {}).get("jsonUrl")
    if not address:
        journal.violation("no result", f"job {job.id} is done and names no result")
        return None
    parts = urlsplit(address)
    answer = persistent(url, "GET", f"{parts.path}?{parts.query}", journal)
    if answer is None or answer.status != 200:
        if answer is not None:
            journal.violation("no result", f"job {job.id}: {answer.status} {answer.body[:200]!r}")
        return None
    return [json.loads(line)["result"] for line in answer.body.splitlines()]


def judge_jobs(url: str, jobs: Sequence[Job], readings: Readings, journal: Journal) -> Verdict:
    """Every honest job: there, ended, all pages, texts as undisturbed, or a reason that the run gave."""
    verdict = Verdict()
    for job in jobs:
        # Also of jobs that ended long ago: they must still be there.
        job.state = {}
        for _ in range(5):
            if not job.state:
                look(url, job, journal)
        state = job.state.get("state")
        if state == "lost":
            verdict.add("job lost", f"{job.id}, accepted at {job.accepted_s:.0f} s, unknown at {job.lost_s or 0:.0f} s")
            continue
        if job.lost_s is not None:
            verdict.add("job lost for a time", f"{job.id}: unknown at {job.lost_s:.0f} s, and known again")
        if state == "failed":
            verdict.add("job failed", f"{job.id}: {job.state.get('errorMsg')}")
        elif state != "done":
            verdict.add("job without an end", f"{job.id}: {state or 'nobody says its state'}")
        if state != "done":
            continue
        lines = lines_of(url, job, journal)
        if lines is not None and job.document is not None:
            end = job.ended_s if job.ended_s is not None else journal.now()
            marks = causes(journal.spans, job.accepted_s, end)
            judge_pages(job.document, of_lines(lines), readings, marks, f"job {job.id} ({job.document.name})", verdict)
    return verdict


def retry_failed(url: str, jobs: Sequence[Job], readings: Readings, journal: Journal) -> int:
    """Pages that were given up are parsed again, as an operator would have it; now they must be whole. Returns how many
    jobs there were."""
    again = [job for job in jobs if (job.state.get("docparser") or {}).get("failedPages")]
    for job in again:
        answer = persistent(url, "POST", f"{JOBS}/{job.id}/retry", journal)
        if answer is not None and answer.status != 200:
            journal.violation("retry", f"job {job.id}: {answer.status} {answer.body[:200]!r}")
        job.state = {}
    wait_for_jobs(url, again, journal)
    for job in again:
        if failed := (job.state.get("docparser") or {}).get("failedPages"):
            journal.violation("retry", f"job {job.id}: without trouble, too, pages fail: {failed}"[:400])
    return len(again)


def compare_batch(url: str, batch: str, jobs: Sequence[Job], journal: Journal) -> list[str]:
    """Ids of all jobs of a batch that the server has; one that no client knows of was made twice."""
    answer = persistent(url, "GET", f"{JOBS}/batch/{batch}", journal)
    if answer is None or answer.status == 404:
        return []
    listed = [entry["jobId"] for entry in answer.json()["data"]["extractResult"]]
    known = {job.id for job in jobs}
    for name in listed:
        if name not in known:
            journal.violation("job doubled", f"batch {batch} has job {name}, which no client was told of")
    return listed


def purge(url: str, ids: Sequence[str], journal: Journal) -> None:
    for name in ids:
        answer = persistent(url, "DELETE", f"{JOBS}/{name}?purge=true", journal)
        if answer is not None and answer.status not in (200, 204, 404):
            journal.violation("purge", f"job {name}: {answer.status} {answer.body[:200]!r}")


def settle(
    bundle: Bundle, before: dict[str, Usage], journal: Journal, allowed: Tolerance, seconds: float = SETTLE_S
) -> dict[str, Usage]:
    """Wait until memory, descriptors, processes and disk are where they were; what is not is a violation."""
    deadline = time.monotonic() + seconds
    while True:
        after = measured(bundle)
        found = {service: grown(before[service], after[service], allowed) for service in after}
        if not any(found.values()):
            return after
        if time.monotonic() > deadline:
            for service, words in found.items():
                for word in words:
                    journal.violation("resources", f"{service}: {word}")
            return after
        time.sleep(3)
