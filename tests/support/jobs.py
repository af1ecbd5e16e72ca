# SPDX-License-Identifier: Apache-2.0
"""A parser with simulated page work and a simulated VLM, as processes that tests kill and start again over one
folder."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx

from free_ports import free_port
from tests.support.parser_process import SIMULATED_WORK, ParserProcess
from tests.support.processes import Process, child_environment
from tests.support.wait import wait_for
from tests.support.weights import make_layout_files


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
    def holding(self, pages: str = "") -> Iterator[None]:
        """Answers wait until the body ends: those for `pages`, or all."""
        hold = self.folder / "hold"
        hold.write_text(pages)
        try:
            yield
        finally:
            hold.unlink()

    def asked(self) -> list[str]:
        """`job-<id> page <n>`, once for each time that a page was read."""
        path = self.folder / "asked"
        return path.read_text().splitlines() if path.exists() else []


class JobsParser(ParserProcess):
    """A parser whose page work is simulated, with limits that suit jobs."""

    def __init__(self, folder: Path, vlm_port: int, **settings: str) -> None:
        own = {
            "PARSER_PAGES_IN_FLIGHT": "4",
            "PARSER_MIN_FREE_MIB": "0",
            "PARSER_LOG_FORMAT": "text",
            "LAYOUT_MODEL_DIR": str(folder / "PP-DocLayoutV2"),
            "VLM_URL": f"http://127.0.0.1:{vlm_port}/v1",
        }
        super().__init__(folder, (), SIMULATED_WORK, **{**own, **settings})

    def wait_until_idle(self) -> None:
        """No page waits or is at work, of whatever test: a test that holds the VLM wants the first place."""

        def idle() -> bool:
            load = self.client.get("/capacity").json()["result"]
            return not any(load[kind][state] for kind in ("pages", "jobs") for state in load[kind] if state != "most")

        wait_for(idle, what="an idle parser")


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
