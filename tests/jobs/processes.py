# SPDX-License-Identifier: Apache-2.0
"""Parsers and VLMs as processes that tests start, kill and start again over one data directory.

Used by ``tests/web`` too, whose environment has no parser: ``PYTHON`` is the one that has.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PARSER_PYTHON = Path(os.environ.get("ENVS_DIR", ROOT / ".venvs")) / "parser/bin/python"
PYTHON = str(PARSER_PYTHON if PARSER_PYTHON.exists() else sys.executable)

START_S = 300  # busy machines start processes slowly
WAIT_S = 240
JOBS = "/api/v2/ocr/jobs"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(condition, seconds: float = WAIT_S) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.05)


class Process:
    """A process in a session of its own, so that a kill reaches its children too."""

    def __init__(self, command: list[str], log: Path, env: dict[str, str]) -> None:
        self.log = log
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("PARSER_", "VLM_", "PADDLE"))}
        kept.pop("PYTHONDONTWRITEBYTECODE", None)
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                command, env=kept | env, cwd=log.parent, stdout=file, stderr=file, start_new_session=True
            )

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def end(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()


class Vlm(Process):
    def __init__(self, folder: Path, port: int, delay_s: float = 0.0) -> None:
        self.folder, self.port = folder, port
        command = [PYTHON, str(HERE / "simulated_vlm.py"), str(port), str(folder), str(delay_s)]
        super().__init__(command, folder / "vlm.log", {})
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                return
            time.sleep(0.05)
        raise AssertionError(f"the simulated VLM did not start:\n{self.log.read_text()}")

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
        """``job-<id> page <n>``, once per time that a page was read."""
        path = self.folder / "asked"
        return path.read_text().splitlines() if path.exists() else []


class Parser(Process):
    """``main``: the script that runs the service."""

    def __init__(self, folder: Path, vlm_port: int, main: list[str] | None = None, **env: str) -> None:
        self.port = free_port()
        own = {
            "PARSER_PORT": str(self.port),
            "PARSER_DATA_DIR": str(folder / "data"),
            "PARSER_CACHE_DIR": str(folder / "cache"),
            "PARSER_WORKERS": "1",
            "PARSER_PAGES_IN_FLIGHT": "4",
            "PARSER_MIN_FREE_MIB": "0",
            "PARSER_LOG_FORMAT": "text",
            "LAYOUT_MODEL_DIR": str(folder / "PP-DocLayoutV2"),
            "VLM_URL": f"http://127.0.0.1:{vlm_port}/v1",
            "PYTHONPATH": str(ROOT / "parser"),
        }
        super().__init__([PYTHON, *(main or [str(HERE / "simulated_parser.py")])], folder / "parser.log", own | env)
        self.url = f"http://127.0.0.1:{self.port}"
        self.client = httpx.Client(base_url=self.url, timeout=120, trust_env=False)

    def wait(self, path: str = "/health/ready") -> Parser:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            assert self.process.poll() is None, f"the parser ended:\n{self.log.read_text()}"
            with contextlib.suppress(httpx.TransportError):
                if self.client.get(path).status_code == 200:
                    return self
            time.sleep(0.1)
        raise AssertionError(f"not ready after {START_S} s:\n{self.log.read_text()[-4000:]}")

    def submit(
        self, document: bytes, name: str = "a.pdf", headers: dict | None = None, **fields: str
    ) -> httpx.Response:
        fields = {"model": "PaddleOCR-VL-1.6", **fields}
        return self.client.post(JOBS, data=fields, files={"file": (name, document)}, headers=headers or {})

    def job(self, document: bytes, **fields: str) -> str:
        answer = self.submit(document, **fields)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]["jobId"]

    def state(self, job_id: str) -> dict:
        answer = self.client.get(f"{JOBS}/{job_id}")
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    def wait_for(self, job_id: str, reached) -> dict:
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            state = self.state(job_id)
            if reached(state):
                return state
            time.sleep(0.05)
        raise AssertionError(f"after {WAIT_S} s: {state}\n{self.log.read_text()[-4000:]}")

    def ended(self, job_id: str) -> dict:
        return self.wait_for(job_id, lambda state: state["state"] in ("done", "failed"))

    def lines(self, url: str) -> list[dict]:
        answer = httpx.get(url, trust_env=False, timeout=120)
        assert answer.status_code == 200, answer.text
        return [httpx.Response(200, text=line).json()["result"] for line in answer.text.splitlines()]

    def end(self) -> None:
        self.client.close()
        super().end()


class Start:
    """Processes over one folder: ``vlm(delay_s)``, ``parser(**env)``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: list[Process] = []
        self.vlm_port = free_port()
        layout = folder / "PP-DocLayoutV2"  # the simulated workers do not read it, but the service looks for it
        layout.mkdir()
        for name in ("inference.json", "inference.pdiparams", "inference.yml"):
            (layout / name).write_text("simulated")

    def vlm(self, delay_s: float = 0.0) -> Vlm:
        self.running.append(Vlm(self.folder, self.vlm_port, delay_s))
        return self.running[-1]

    def parser(self, **env: str) -> Parser:
        self.running.append(Parser(self.folder, self.vlm_port, **env))
        return self.running[-1]

    def end(self) -> None:
        for process in reversed(self.running):
            if process.process.poll() is None:
                process.end()
