# SPDX-License-Identifier: Apache-2.0
"""The stream of a job's events, read from the job service without HTTP."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from docparser.errors import StorageUnavailable
from docparser.http.jobs import events, routes
from tests.support.job_place import Place
from tests.support.job_service import Made
from tests.support.wait import WAIT_S


def test_a_follower_is_told_each_change_and_that_the_rest_is_still_to_come(
    make_service: Made, tmp_path: Path, monkeypatch
):
    monkeypatch.setattr(events, "HEARTBEAT_S", 0.05)
    monkeypatch.setattr(events, "AWAY_S", 0.0)
    service, place = make_service(), Place(tmp_path)
    job_id, look = place.submit(2), service.store.look

    async def scenario() -> None:
        stream = events._stream(service, job_id, "", -1)

        async def told() -> list[tuple[str, dict[str, Any]]]:
            """The next events, each with its name; comments are passed over."""
            while (text := (await anext(stream)).decode()).startswith(":"):
                assert text.endswith("\n\n")
            lines = [line.split(": ", 1)[1] for line in text.splitlines() if line]
            return [(name, json.loads(data)) for name, data in zip(lines[1::3], lines[2::3], strict=True)]

        ((name, first),) = await told()
        assert (name, first["state"], first["docparser"].get("waitsFor")) == ("job", "pending", None)
        assert await anext(stream) == b": still here\n\n"
        service.runner._paused_by = "the VLM is away"
        ((name, paused),) = await told()
        assert (name, paused["docparser"]["waitsFor"]) == ("job", "the VLM is away")
        service.runner._paused_by = ""
        await told()

        def away(*_: object) -> None:
            monkeypatch.setattr(service.store, "look", look)
            raise StorageUnavailable("away")

        monkeypatch.setattr(service.store, "look", away)
        while await anext(stream) != b": the job store is away\n\n":
            pass
        place.parse(place.claim())
        place.queue.fail(place.claim(), "WorkerLost", "lost", join=False)
        seen = await told()
        while seen[-1][1]["state"] != "done":
            seen += await told()
        pages = {event["page"]: event for name, event in seen if name == "page"}
        assert pages[1]["state"] == "done" and (pages[1]["width"], pages[1]["height"]) == (1, 2)
        assert (pages[2]["state"], pages[2]["error"], "width" in pages[2]) == ("failed", "lost", False)
        assert [name for name, event in seen][-1] == "job"
        with pytest.raises(StopAsyncIteration):
            await anext(stream)

    asyncio.run(asyncio.wait_for(scenario(), WAIT_S))


def test_the_stream_of_a_job_that_is_removed_ends(make_service: Made, tmp_path: Path):
    service, place = make_service(), Place(tmp_path)
    job_id = place.submit(2)

    async def scenario() -> list[bytes]:
        stream = events._stream(service, job_id, "", -1)
        seen = [await anext(stream)]
        routes._cancel(service, job_id, "", purge=True)
        return seen + [event async for event in stream if not event.startswith(b":")]

    (only,) = asyncio.run(asyncio.wait_for(scenario(), WAIT_S))
    assert b"pending" in only
