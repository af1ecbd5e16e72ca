# SPDX-License-Identifier: Apache-2.0
"""Work over strangers' text ends at its bounds, and takes nothing else with it."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import io
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO

import pytest

from docparser.errors import BoundExceeded, InvalidRequest, SpoolFull, UnreadableText
from docparser.http import answers
from docparser.sandbox import pool as pools
from docparser.sandbox.offload import Offload
from docparser.sandbox.pool import Cancelled, ChildPool, JobHandle
from docparser.sandbox.process import Bounds, Child, Zygote
from docparser.settings import Settings
from tests.support.child_jobs import JOBS
from tests.support.full_disk import full_disk
from tests.support.processes import child_environment, gone
from tests.support.wait import WAIT_S, wait_for

BOUNDS = Bounds(cpu_s=WAIT_S, wall_s=WAIT_S, memory=128 << 20, output=4 << 20)


def children(zygote: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{zygote}/task/{zygote}/children").read_text().split()]


class Pool(ChildPool):
    """``call(job)`` returns the job's output."""

    def call(
        self, job: str, content: bytes = b"in", call: JobHandle | None = None, *, aside: bool = False, **bounds: Any
    ) -> bytes:
        with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as sink:
            source.write(content)
            source.flush()
            source.seek(0)
            limits = dataclasses.replace(BOUNDS, **bounds)
            self.run(job, {}, (source.fileno(), sink.fileno()), limits, f"told to {job}", call, aside=aside)
            sink.seek(0)
            return sink.read()

    def child_of(self) -> int:
        """The process that the next job goes to, if no other job runs."""
        return int(self.call("echo").split()[-1])

    @property
    def zygote_pid(self) -> int:
        assert self._zygote is not None
        return self._zygote.pid


@contextlib.contextmanager
def running(quick: int = 2, most: int = 8) -> Iterator[Pool]:
    pool = Pool(lambda: Zygote.spawn(JOBS), quick=quick, most=most)
    pool.prepare()
    try:
        yield pool
    finally:
        pool.close()


@pytest.fixture(scope="module")
def shared():
    with running() as pool:
        yield pool


@pytest.fixture
def pool(shared):
    """Each test leaves it as it was: no child but the one that waits."""
    yield shared
    wait_for(lambda: len(children(shared.zygote_pid)) <= 1)


def test_a_child_does_one_job_after_the_other(pool):
    assert pool.call("echo", b"one").split()[0] == b"one"
    assert len({pool.child_of() for _ in range(5)}) == 1


@pytest.mark.parametrize(
    ("job", "bounds", "words"),
    [
        ("backtrack", {"cpu_s": 0.1}, "processor time (PARSER_CHILD_CPU_S)"),
        ("backtrack", {"wall_s": 0.5}, "(PARSER_CHILD_WALL_S)"),
        ("sleep", {"wall_s": 0.5}, "(PARSER_CHILD_WALL_S)"),
        ("allocate", {}, "more than 128 MiB of memory (PARSER_CHILD_MEMORY_MIB)"),
        ("write", {}, "larger than 4 MiB (PARSER_CHILD_OUTPUT_MIB)"),
        ("nest", {}, "nested too deeply"),
    ],
)
def test_what_exceeds_a_bound_ends_with_its_name(pool, job, bounds, words):
    with pytest.raises(BoundExceeded, match=f"^told to {job}: ") as caught:
        pool.call(job, **bounds)
    assert words in str(caught.value)
    assert pool.call("echo", b"after").startswith(b"after ")


def test_a_child_computes_in_one_thread(pool):
    """Its memory is bounded, and on a machine of many cores the threads of a library alone would take it."""
    assert pool.call("threads") == b"1"


def test_a_child_that_crashes_is_replaced(pool):
    before = pool.child_of()
    with pytest.raises(UnreadableText, match="told to crash: the process for it crashed .SIGSEGV."):
        pool.call("crash")
    assert pool.child_of() != before


def test_a_crash_that_an_earlier_job_caused_costs_nothing(pool):
    pool.call("mark_used")
    assert pool.call("crash_when_used", b"whole") == b"whole"


def test_a_child_that_needed_much_memory_is_not_kept(pool):
    assert int(pool.call("grow")) != pool.child_of()


def test_a_child_ends_after_so_many_jobs(pool, monkeypatch):
    monkeypatch.setattr(pools, "MAX_JOBS", 3)
    numbers = [pool.child_of() for _ in range(9)]
    assert 3 <= len(set(numbers)) <= 4 and max(map(numbers.count, numbers)) <= 3


def test_errors_of_a_job_keep_their_class_and_others_their_secrets(pool):
    with pytest.raises(InvalidRequest, match="^pages: not what was expected$"):
        pool.call("refuse")
    with pytest.raises(UnreadableText) as caught:
        pool.call("fail")
    assert str(caught.value) == "told to fail: its text cannot be read (KeyError)"


def test_children_have_no_keys_and_neither_paddle_nor_fastapi(monkeypatch):
    monkeypatch.setenv("PARSER_API_KEYS", "secret")
    monkeypatch.setenv("VLM_API_KEY", "secret")
    pool = Pool(lambda: Zygote.spawn(JOBS | {"convert": "docparser.convert.formats:convert_answer"}), quick=1, most=1)
    try:
        names = set(pool.call("look").decode().split())
    finally:
        pool.close()
    assert {"openpyxl", "docparser.convert.formats"} <= names
    assert not names & {"PARSER_API_KEYS", "VLM_API_KEY", "paddle", "paddlex", "fastapi", "starlette", "uvicorn"}


def test_cancelled_work_ends_at_once(pool):
    call = JobHandle()
    with ThreadPoolExecutor(1) as threads:
        job = threads.submit(pool.call, "sleep", call=call)
        wait_for(lambda: call._child is not None)
        call.cancel()
        with pytest.raises(Cancelled):
            job.result(WAIT_S)
    with pytest.raises(Cancelled):
        pool.call("echo", call=call)


def test_cancelled_work_that_waits_for_a_place_ends_too():
    """A worker whose cancelled page waits behind joins of long documents would be taken for stuck, and killed."""
    with running(quick=1, most=1) as pool, ThreadPoolExecutor(2) as threads:
        first, second = JobHandle(), JobHandle()
        at_work = threads.submit(pool.call, "sleep", call=first)
        wait_for(lambda: first._child is not None)
        waiting = threads.submit(pool.call, "echo", call=second)
        second.cancel()
        try:
            with pytest.raises(Cancelled):
                waiting.result(WAIT_S)
        finally:
            first.cancel()
        with pytest.raises(Cancelled):
            at_work.result(WAIT_S)
        assert pool.call("echo", b"after").startswith(b"after ")


def test_slow_jobs_do_not_keep_quick_ones_waiting():
    """Seven endless jobs fill more than the quick places; a quick job gets its turn while all of them run."""
    with running(quick=2, most=8) as pool, ThreadPoolExecutor(7) as threads:
        calls = [JobHandle() for _ in range(7)]
        slow = [threads.submit(pool.call, "backtrack", call=call) for call in calls]
        wait_for(lambda: len(children(pool.zygote_pid)) >= 7)
        busy = set(children(pool.zygote_pid))
        for _ in range(20):
            assert pool.call("echo", b"quick").startswith(b"quick ")
        assert not any(job.done() for job in slow)
        lowered = [pid for pid in busy if os.getpriority(os.PRIO_PROCESS, pid) == 19]
        assert len(lowered) >= 6, "those that have had their second have the lowest priority"
        for call in calls:
            call.cancel()
        for job in slow:
            with pytest.raises(Cancelled):
                job.result(WAIT_S)


def test_a_job_that_is_aside_takes_no_quick_place_and_has_the_lowest_priority_at_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("docparser.sandbox.pool.QUICK_S", WAIT_S)
    with running(quick=1, most=8) as pool, ThreadPoolExecutor(2) as threads:
        calls = JobHandle(), JobHandle()
        jobs = [threads.submit(pool.call, "sleep", call=call, aside=True) for call in calls]
        wait_for(lambda: all(call._child is not None and call._child.jobs for call in calls))
        for call in calls:
            assert call._child is not None and os.getpriority(os.PRIO_PROCESS, call._child.pid) == 19
        assert pool.call("echo", b"quick").startswith(b"quick ")
        for call, job in zip(calls, jobs):
            call.cancel()
            with pytest.raises(Cancelled):
                job.result(WAIT_S)


def test_a_zygote_that_was_killed_is_started_again():
    with running() as pool:
        os.kill(pool.zygote_pid, signal.SIGKILL)  # the waiting child ends with it
        assert pool.call("echo", b"again").startswith(b"again ")


def test_jobs_whose_zygote_is_killed_are_tried_again_and_those_of_the_next_one_go_on():
    with running(quick=4) as pool, ThreadPoolExecutor(2) as threads:
        calls = JobHandle(), JobHandle()
        jobs = [threads.submit(pool.call, "sleep", call=call) for call in calls]
        wait_for(lambda: all(at_work(call) for call in calls))
        first = pool.zygote_pid
        os.kill(first, signal.SIGKILL)
        wait_for(lambda: all(at_work(call) not in (0, first) for call in calls))
        assert {at_work(call) for call in calls} == {pool.zygote_pid}
        for call, job in zip(calls, jobs):
            call.cancel()
            with pytest.raises(Cancelled):
                job.result(WAIT_S)


def at_work(call: JobHandle) -> int:
    """The zygote of the child that works on a job; 0 if none does."""
    child = call._child
    return child.zygote.pid if child is not None and child.jobs else 0


def test_a_child_that_the_kernel_ends_costs_no_job_and_two_cost_one(pool, monkeypatch):
    pool.call("echo")
    os.kill(pool._waiting[-1].pid, signal.SIGKILL)
    assert pool.call("echo", b"whole").startswith(b"whole ")
    killed, run = [], Child.run

    def end_and_run(self: Child, *args: Any) -> dict[str, Any]:
        self.kill()
        killed.append(self.pid)
        return run(self, *args)

    monkeypatch.setattr(Child, "run", end_and_run)
    with pytest.raises(UnreadableText, match="crashed .SIGKILL."):
        pool.call("echo")
    assert len(killed) == pools.TRIES


SERVICE = """
import sys, threading
from tests.parser.test_child_processes import Pool
from docparser.sandbox.process import Zygote
from tests.support.child_jobs import JOBS
pool = Pool(lambda: Zygote.spawn(JOBS), quick=3, most=3)
pool.prepare()
for job in ("sleep", "backtrack"):
    threading.Thread(target=pool.call, args=(job,), daemon=True).start()
print(pool.zygote_pid, flush=True)
sys.stdin.read()
"""


def test_children_end_with_a_service_that_was_killed():
    """One waits, one sleeps and one computes in a C function when their service dies."""
    command = [sys.executable, "-c", SERVICE]
    environment = child_environment()
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as service:
        assert service.stdout is not None
        zygote = int(service.stdout.readline())
        wait_for(lambda: len(children(zygote)) >= 2)
        family = [zygote, *children(zygote)]
        service.kill()
    wait_for(lambda: all(gone(pid) for pid in family), what="the end of all children")


def test_a_fork_of_this_process_needs_no_import():
    """Workers make their zygote so: what they have loaded is there, and none of their files is open in it."""
    code = (
        "import os, sys\n"
        "from tests.parser.test_child_processes import Pool\n"
        "from docparser.sandbox.process import Zygote\n"
        "from tests.support import child_jobs\n"
        "kept = open(os.devnull)\n"
        "zygote = Zygote.fork({name: getattr(child_jobs, name) for name in child_jobs.NAMES})\n"
        "pool = Pool(lambda: zygote, quick=1, most=1)\n"
        "assert pool.call('echo', b'forked').startswith(b'forked ')\n"
        "files = f'/proc/{zygote.pid}/fd'\n"
        "links = [os.readlink(f'{files}/{file}') for file in os.listdir(files) if int(file) > 2]\n"
        "assert links and os.devnull not in links\n"
        "pool.close()\n"
        "assert not os.path.exists(f'/proc/{zygote.pid}')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=child_environment(), capture_output=True, text=True, timeout=WAIT_S
    )
    assert done.returncode == 0, done.stderr


class TestOffload:
    @pytest.fixture
    def settings(self, tmp_path):
        return Settings(spool_dir=tmp_path, child_tasks=2, child_memory_mib=128)

    def test_files_are_gone_with_the_answer(self, settings, tmp_path):
        def fill(file: BinaryIO) -> tuple[str, ...]:
            file.write(b"in")
            return ()

        async def work() -> bytes:
            output = await offload.run("echo", {}, fill, BOUNDS, "echo")
            with output:
                return output.read()

        offload = Offload(settings, JOBS)
        offload.start()
        try:
            assert asyncio.run(work()).startswith(b"in ")
            assert list(tmp_path.iterdir()) == []
        finally:
            offload.close()

    def test_a_disk_that_fills_up_meanwhile_is_named(self, settings, tmp_path):
        def fill(file: BinaryIO) -> tuple[str, ...]:
            file.write(bytes(3000))
            return ()

        offload = Offload(settings, JOBS)
        with full_disk(1024), pytest.raises(SpoolFull, match="PARSER_SPOOL_DIR"):
            asyncio.run(offload.run("echo", {}, fill, BOUNDS, "echo"))
        offload.close()
        assert list(tmp_path.iterdir()) == []

    def test_a_client_that_leaves_ends_its_child_and_those_behind_it_go_on(self, settings):
        async def work() -> bytes:
            async with asyncio.timeout(WAIT_S):
                tasks = [
                    asyncio.create_task(offload.run("sleep", {}, lambda file: (), BOUNDS, "sleep")) for _ in range(3)
                ]
                while busy() < 2:
                    await asyncio.sleep(0.05)
                behind = asyncio.create_task(offload.run("echo", {}, lambda file: (), BOUNDS, "echo"))
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                with await behind as output:
                    return output.read()

        def busy() -> int:
            zygote = offload._pool._zygote
            return len(children(zygote.pid)) if zygote else 0

        offload = Offload(settings, JOBS)
        offload.start()
        try:
            assert asyncio.run(work()).strip().isdigit()
        finally:
            offload.close()

    def test_one_client_has_half_of_the_places_and_nobody_waits_behind_its_jobs(self, settings):
        async def work() -> bytes:
            def sleep() -> Coroutine[None, None, BinaryIO]:
                return offload.run("sleep", {}, lambda file: (), BOUNDS, "sleep", "many")

            async with asyncio.timeout(WAIT_S / 4):
                tasks = [asyncio.create_task(sleep()) for _ in range(20)]
                await asyncio.sleep(0)
                output = await offload.run("echo", {}, lambda file: (), BOUNDS, "echo", "another")
                assert not any(task.done() for task in tasks)
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                with output:
                    return output.read()

        offload = Offload(settings, JOBS)
        offload.start()
        try:
            assert asyncio.run(work()).strip().isdigit()
        finally:
            offload.close()

    def test_beside_the_first_job_of_a_client_its_others_are_aside(self, settings, monkeypatch: pytest.MonkeyPatch):
        """Each would else have the processor as others have it for its first second, many times a second."""
        asked: list[tuple[str, bool]] = []
        release = threading.Event()

        def run(job: str, *_: object, aside: bool) -> None:
            asked.append((job, aside))
            release.wait(WAIT_S)

        async def work() -> None:
            def start(job: str, client: str) -> asyncio.Task:
                return asyncio.create_task(offload.run(job, {}, lambda file: (), BOUNDS, job, client))

            tasks = []
            for number, (job, client) in enumerate([("a", "one"), ("b", "one"), ("c", "two"), ("d", "")], 1):
                tasks.append(start(job, client))
                while len(asked) < number:
                    await asyncio.sleep(0.01)
            release.set()
            for output in await asyncio.gather(*tasks):
                output.close()
            (await start("e", "one")).close()

        offload = Offload(settings.model_copy(update={"child_tasks": 8}), JOBS)
        monkeypatch.setattr(offload._pool, "run", run)
        asyncio.run(work())
        offload.close()
        assert asked == [("a", False), ("b", True), ("c", False), ("d", False), ("e", False)]


def test_bounds_grow_with_the_pages():
    bounds = BOUNDS.for_pages(300)
    assert (bounds.cpu_s, bounds.wall_s) == (4 * WAIT_S, 4 * WAIT_S)
    assert (bounds.memory, bounds.output) == (BOUNDS.memory, BOUNDS.output)


def test_bounds_are_those_of_the_settings():
    own = Settings(child_cpu_s=1, child_wall_s=2, child_memory_mib=64, child_output_mib=4)
    assert Bounds.of(own) == Bounds(cpu_s=1, wall_s=2, memory=64 << 20, output=4 << 20)


def test_a_conversion_has_the_bounds_of_its_pages_and_takes_its_clients_place():
    seen: list[tuple] = []

    class Seen(Offload):
        def __init__(self) -> None: ...

        async def run(self, job, args, fill, bounds, what, client="") -> BinaryIO:
            with io.BytesIO() as sink:
                seen.append((job, args, fill(sink), sink.getvalue(), bounds, what, client))
            return io.BytesIO(b"text")

    async def convert() -> tuple[dict[str, str], bytes]:
        answer = await answers.from_child(
            request, "convert", {"a": 1}, [b"x", b"y"], 50, "this", "text/plain", {"X": "1"}, opened=["o"], files=files
        )
        return dict(answer.headers), b"".join([piece async for piece in answer.body_iterator])  # type: ignore[misc]  # it gives bytes

    own, files = Settings(), ["/jobs/1/a.jpg", "/jobs/1/b.jpg"]
    state = SimpleNamespace(offload=Seen(), settings=own)
    request: Any = SimpleNamespace(app=SimpleNamespace(state=state), scope={"state": {"key_id": "me"}})
    headers, body = asyncio.run(convert())
    assert seen == [("convert", {"a": 1}, ["o", "/jobs/1"], b"xy", Bounds.of(own).for_pages(50), "this", "me")]
    assert body == b"text" and headers["content-length"] == "4" and headers["x"] == "1"
    assert "sandbox" in headers["content-security-policy"]


def test_many_threads_share_the_children():
    with running(quick=2, most=4) as pool, ThreadPoolExecutor(16) as threads:
        texts = [b"%d" % number for number in range(200)]
        assert [answer.split()[0] for answer in threads.map(lambda text: pool.call("echo", text), texts)] == texts
        assert len(children(pool.zygote_pid)) <= 4
