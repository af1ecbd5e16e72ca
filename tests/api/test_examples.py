# SPDX-License-Identifier: Apache-2.0
"""The programs of docs/examples, as their readers run them: with a key, refusals for a while, callbacks, a bad file."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
import runpy
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.conftest import KEY, without_proxies
from tests.support.callback_receiver import SECRET
from tests.support.paths import ROOT
from tests.support.simulated_http import JsonHandler, SimulatedServer
from tests.support.system_packages import needs

EXAMPLES = ROOT / "docs/examples"
DROPPED = {"host", "connection", "content-length", "transfer-encoding", "accept-encoding"}


class Hurdles(SimulatedServer):
    """Stands before the parser: it refuses each third request for now, and cuts each fifth."""

    def __init__(self, parser: str) -> None:
        self.parser, self.numbers = parser, itertools.count(1)
        super().__init__()

    def __enter__(self) -> Hurdles:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def handler(self) -> type[JsonHandler]:
        hurdles = self

        class Handler(JsonHandler):
            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                number = next(hurdles.numbers)
                if not number % 5:
                    return self.connection.shutdown(socket.SHUT_RDWR)
                if not number % 3:
                    return self.text(429, "later", Retry_After="0")
                headers = {name: value for name, value in self.headers.items() if name.lower() not in DROPPED}
                with httpx.Client(trust_env=False, timeout=60) as client:
                    answer = client.request(self.command, hurdles.parser + self.path, content=body, headers=headers)
                self.text(answer.status_code, answer.text, Content_Type=answer.headers["Content-Type"])

            do_POST = do_GET

        return Handler


class UsedUp(SimulatedServer):
    """A parser that says how long a key's quota of the month is used up."""

    def handler(self) -> type[JsonHandler]:
        class Handler(JsonHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self.text(429, "no pages left", Retry_After=str(31 * 24 * 3600))

        return Handler


@pytest.fixture(scope="module")
def used_up() -> Iterator[str]:
    with contextlib.closing(UsedUp()) as server:
        yield f"http://127.0.0.1:{server.port}"


@pytest.fixture(scope="module")
def url(guarded_url: str) -> Iterator[str]:
    with Hurdles(guarded_url) as hurdles:
        yield f"http://127.0.0.1:{hurdles.port}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Six documents, two of them alike, one that cannot be read, and what systems leave in folders."""
    scans = tmp_path / "scans"
    (scans / "2024").mkdir(parents=True)
    for name in ("report.png", "2024/report.png", "2024/letter.png", "handbook.pdf", "发票 1.png"):
        source = ROOT / "tests/data" / (Path(name).name if name.isascii() else "invoice.png")
        shutil.copy(source, scans / name)
    for name in ("broken.pdf", "._report.png", ".DS_Store", "2024/Thumbs.db"):
        (scans / name).write_bytes(b"%PDF-1.7\nnothing")
    return scans


def jobs(url: str) -> set[str]:
    """The ids of the key's jobs."""
    headers = {"Authorization": f"Bearer {KEY}"}
    while True:
        with contextlib.suppress(httpx.TransportError):
            answer = httpx.get(f"{url}/api/v2/ocr/jobs?limit=200", headers=headers, trust_env=False)
            if answer.status_code == 200:
                return {job["jobId"] for job in answer.json()["data"]["jobs"]}


def check(command: list[str], url: str, used_up: str, extra: dict[str, str], cwd: Path) -> None:
    """Run an example twice: the second call asks for nothing that the first one wrote. With a used-up quota it ends."""
    before = jobs(url)
    env = {**without_proxies(), "PARSER_API_KEY": KEY, **extra}
    for there in (0, 5):
        done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=120, check=False)
        *lines, last = done.stdout.splitlines()
        said = f"6 documents: {there} there before, {5 - there} parsed; 7 files in all"
        assert last == said, done.stdout + done.stderr
        assert done.returncode == 1 and sum("broken.pdf: " in line for line in lines) == 1, done.stderr
        assert len(jobs(url) - before) == 6
    out = cwd / "parsed"
    written = sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())
    assert written == sorted(
        f"{name}.md" for name in ("report.png", "2024/report.png", "2024/letter.png", "handbook.pdf", "发票 1.png")
    )
    assert "page 3" in (out / "handbook.pdf.md").read_text()
    later = [{url: used_up, "parsed": "later"}.get(word, word) for word in command]
    done = subprocess.run(later, cwd=cwd, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and "the service takes nothing: 429 no pages left" in done.stdout + done.stderr


@pytest.mark.parametrize("told", [False, True])
def test_python(url: str, used_up: str, callback_port: int, folder: Path, tmp_path: Path, told: bool):
    words = ["--listen", str(callback_port)] if told else []
    command = [sys.executable, str(EXAMPLES / "many_documents.py"), str(folder), "parsed", "--url", url, *words]
    check(command, url, used_up, {"CALLBACK_SECRET": SECRET} if told else {}, tmp_path)


@pytest.mark.long
@needs("nodejs", "npm")
def test_typescript(url: str, used_up: str, callback_port: int, folder: Path, installed: Path, tmp_path: Path):
    shutil.copy(EXAMPLES / "many_documents.ts", installed)
    options = ["--strict", "--target", "es2022", "--module", "nodenext", "--types", "node"]
    subprocess.run(
        ["node", "node_modules/typescript/bin/tsc", *options, "many_documents.ts"], cwd=installed, check=True
    )
    command = ["node", str(installed / "many_documents.js"), str(folder), "parsed", url]
    check(command, url, used_up, {"CALLBACK_SECRET": SECRET, "LISTEN": str(callback_port)}, tmp_path)


def test_files_with_an_ending_of_any_format_are_documents():
    suffixes = runpy.run_path(str(ROOT / "common/file_types.py"))["SUFFIXES"]
    endings = runpy.run_path(str(EXAMPLES / "many_documents.py"))["ENDINGS"]
    assert [f".{ending}" for ending in endings] == list(suffixes)
    [pattern] = re.findall(r"DOCUMENT = /(.*)/i;", (EXAMPLES / "many_documents.ts").read_text())
    assert all(re.search(pattern, suffix) for suffix in suffixes)


class Slow:
    """A service that tells of all jobs, and what was true when it was asked. Its first job cannot be opened at first,
    its second one ends after the retry of that; an answer is on its way meanwhile."""

    def __init__(self, module: dict[str, Any]) -> None:
        transport = httpx.MockTransport(self.answer)
        self.client = httpx.AsyncClient(transport=transport, base_url="http://parser")
        self.jobs = module["Jobs"](self.client, None)
        self.retried, self.asked = False, asyncio.Event()
        self.keys: list[str] = []

    async def answer(self, request: httpx.Request) -> httpx.Response:
        data: dict[str, Any] = {}
        if request.url.path.endswith("/retry"):
            self.asked.clear()
            self.jobs.news.set()
            await self.asked.wait()
            self.retried = True
        elif request.method == "POST":
            self.keys.append(request.headers["Idempotency-Key"])
            data = {"jobId": f"job{len(self.keys)}"}
        elif not request.url.path.endswith("/result"):
            data = {"jobs": [self.state("job1", "failed"), self.state("job2", "running")]}
            self.asked.set()
            if not self.retried and "job1" not in request.url.params.get_list("jobId"):
                while not (self.retried and "job1" in self.jobs._waiting):
                    await asyncio.sleep(0.01)
        return httpx.Response(200, json={"data": data})

    def state(self, job_id: str, before: str) -> dict[str, Any]:
        pages = {"queued": 0, "running": 0, "done": 0, "failed": 0}
        state = "done" if self.retried else before
        return {"jobId": job_id, "state": state, "docparser": {"cancelled": False, "pages": pages}}


def test_a_job_that_could_not_be_opened_is_tried_again_and_no_older_answer_counts(tmp_path: Path):
    module = runpy.run_path(str(EXAMPLES / "many_documents.py"))
    for name in ("a.png", "b.png"):
        (tmp_path / name).write_bytes(b"the same")

    async def run() -> list[bool]:
        service = Slow(module)
        looking = asyncio.create_task(service.jobs.look())
        places = asyncio.Semaphore(2)
        reading = [
            module["parse"](service.jobs, places, tmp_path / name, tmp_path / f"out/{name}.md")
            for name in ("a.png", "b.png")
        ]
        whole = await asyncio.wait_for(asyncio.gather(*reading), 30)
        looking.cancel()
        assert len(set(service.keys)) == 2, "each path has a job of its own"
        return whole

    assert asyncio.run(run()) == [True, True]
