# SPDX-License-Identifier: Apache-2.0
"""What a durable job must be at its end."""

from __future__ import annotations

from tests.images.nodes.client import Client


def check_job(client: Client, job: str, pages: int) -> None:
    """Wait for its pages of tests/data/letter.png: each is there once, in order, and none failed."""
    client.wait_for_pages(job, pages)
    state = client.job(job)
    assert state["state"] == "done", state
    assert state["docparser"]["pages"] == {"queued": 0, "running": 0, "done": pages, "failed": 0}, state
    results = client.results(job)
    assert [result["docparser"]["pages"][0]["page"] for result in results] == list(range(1, pages + 1))
    assert all("dear" in result["layoutParsingResults"][0]["markdown"]["text"].lower() for result in results)
