# SPDX-License-Identifier: Apache-2.0
"""A parser with simulated page work and a simulated VLM, as processes that tests kill and start again over one
folder."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx

from tests.support.parser_process import ParserProcess
from tests.support.processes import Process, child_environment, free_port
from tests.support.wait import WAIT_S, wait_for
from tests.support.weights import make_layout_files

JOBS = "/api/v2/ocr/jobs"


class VlmProcess(Process):
    """The simulated VLM (`simulated_vlm`) as a process, so that it can be killed; files in `folder` steer it."""

    def __init__(self, folder: Path, port: int, delay_s: float = 0.0) -> None:
        self.folder, self.port = folder, port
        command = [sys.executable, "-m", "tests.support.simulated_vlm", str(port), str(folder), str(delay_s)]
        super().__init__(command, folder / "vlm.log", child_environment())
        wait_for(self.answers, what="the simulated VLM")

    def answers(self) -> bool:
        """Whether it is up; fails when it has ended."""
        assert self.process.poll() is None, f"the simulated VLM ended:\n{self.log.read_text()}"
        with contextlib.suppress(httpx.TransportError):
            return httpx.get(f"http://127.0.0.1:{self.port}/health", trust_env=False).status_code == 200
        return False

    @contextlib.contextmanager
    def holding(self) -> Iterator[None]:
        """Answers wait until the body ends."""
        hold = self.folder / "hold"
        hold.touch()
        try:
            yield
        finally:
            hold.unlink()

    def asked(self) -> list[str]:
        """`job-<id> page <n>`, once for each time that a page was read."""
        path = self.folder / "asked"
        return path.read_text().splitlines() if path.exists() else []


class JobsParser(ParserProcess):
    """A parser, and the calls of its job interface. By default its page work is simulated."""

    def __init__(
        self,
        folder: Path,
        vlm_port: int,
        main: tuple[str, ...] = ("-m", "tests.support.simulated_page_work"),
        /,
        **settings: str,
    ) -> None:
        own = {
            "PARSER_PAGES_IN_FLIGHT": "4",
            "PARSER_MIN_FREE_MIB": "0",
            "PARSER_LOG_FORMAT": "text",
            "LAYOUT_MODEL_DIR": str(folder / "PP-DocLayoutV2"),
            "VLM_URL": f"http://127.0.0.1:{vlm_port}/v1",
        }
        super().__init__(folder, (), main, **{**own, **settings})

    def submit(
        self, document: bytes, name: str = "a.pdf", headers: dict | None = None, **fields: str
    ) -> httpx.Response:
        fields = {"model": "PaddleOCR-VL-1.6", **fields}
        return self.client.post(JOBS, data=fields, files={"file": (name, document)}, headers=headers or {})

    def job(self, document: bytes, **fields: str) -> str:
        """The id of a job that must be accepted."""
        answer = self.submit(document, "a.pdf", None, **fields)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]["jobId"]

    def state(self, job_id: str) -> dict:
        answer = self.client.get(f"{JOBS}/{job_id}")
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    def wait_for(self, job_id: str, reached: Callable[[dict], object]) -> dict:
        """The job's first state that `reached` accepts."""
        deadline = time.monotonic() + WAIT_S
        state: dict = {}
        while time.monotonic() < deadline:
            state = self.state(job_id)
            if reached(state):
                return state
            time.sleep(0.05)
        raise AssertionError(f"after {WAIT_S} s: {state}\n{self.log.read_text()[-4000:]}")

    def ended(self, job_id: str) -> dict:
        """The state of a job that is done or has failed."""
        return self.wait_for(job_id, lambda state: state["state"] in ("done", "failed"))

    def wait_until_idle(self) -> None:
        """No page waits or is at work, of whatever test: a test that holds the VLM wants the first place."""

        def idle() -> bool:
            load = self.client.get("/capacity").json()["result"]
            return not any(load[kind][state] for kind in ("pages", "jobs") for state in load[kind] if state != "most")

        wait_for(idle, what="an idle parser")

    def lines(self, url: str) -> list[dict]:
        """The results behind an address of JSON lines."""
        answer = httpx.get(url, trust_env=False, timeout=120)
        assert answer.status_code == 200, answer.text
        return [httpx.Response(200, text=line).json()["result"] for line in answer.text.splitlines()]


class Start:
    """Processes over one folder: `vlm(delay_s)`, `parser(**settings)`; `end()` ends all of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: list[Process] = []
        self.vlm_port = free_port()
        make_layout_files(folder / "PP-DocLayoutV2")

    def vlm(self, delay_s: float = 0.0) -> VlmProcess:
        vlm = VlmProcess(self.folder, self.vlm_port, delay_s)
        self.running.append(vlm)
        return vlm

    def parser(self, **settings: str) -> JobsParser:
        parser = JobsParser(self.folder, self.vlm_port, **settings)
        self.running.append(parser)
        return parser

    def end(self) -> None:
        for process in reversed(self.running):
            if process.process.poll() is None:
                process.end()
