# SPDX-License-Identifier: Apache-2.0
"""The parser as a user has it: a real process on a free loopback port, with settings of its own.

It runs in the environment `parser`. Tests in other environments can start it as well; they need httpx.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import httpx

from free_ports import free_port
from tests.support.paths import ROOT, python_of
from tests.support.processes import Process, child_environment
from tests.support.wait import WAIT_S

PYTHON = str(python_of("parser") if python_of("parser").exists() else sys.executable)

JOBS = "/api/v2/ocr/jobs"

# Words behind `python`. The second parses no page with Paddle, which takes long to load.
REAL = ("-m", "docparser")
SIMULATED_WORK = ("-m", "tests.support.simulated_page_work")

# Limits that tests can reach.
LIMITS = {
    "PARSER_MAX_PAGES": "6",
    "PARSER_MAX_BODY_MIB": "8",
    "PARSER_MAX_IMAGE_PIXELS": "9000000",
    "PARSER_VLM_TIMEOUT_S": "6",
    "PARSER_PAGES_IN_FLIGHT": "4",
}


class ParserProcess(Process):
    """`main` are the words behind `python`, `wrapper` those before it. `log` is the file that the output goes to."""

    def __init__(
        self,
        folder: Path,
        wrapper: tuple[str, ...] = (),
        main: tuple[str, ...] = REAL,
        /,
        **settings: str,
    ) -> None:
        self.port = free_port()
        own = {
            "PARSER_PORT": str(self.port),
            "PARSER_CACHE_DIR": str(folder / "cache"),
            "PARSER_SPOOL_DIR": str(folder / "spool"),
            "PARSER_DATA_DIR": str(folder / "data"),
            "PARSER_WORKERS": "1",
            "PARSER_CPU_THREADS": "1",
            # The graph for OpenVINO takes half a minute to make; tests/parser/layout do.
            "LAYOUT_ENGINE": "paddle",
        }
        # Without bytecode on disk each start compiles PaddleX anew, which takes 7 s.
        dropped = ("PARSER_", "VLM_", "PADDLE", "PYTHONDONTWRITEBYTECODE")
        env = child_environment(*dropped, **{**own, **settings})
        super().__init__([*wrapper, PYTHON, *main], folder / "parser.log", env)
        self.url = f"http://127.0.0.1:{self.port}"
        self.client = httpx.Client(base_url=self.url, timeout=300, trust_env=False)

    def wait(self, path: str = "/health/ready") -> Self:
        """Until `path` answers 200; fails when the process ends before that."""
        deadline = time.monotonic() + WAIT_S
        answer = "nothing"
        while time.monotonic() < deadline:
            assert self.process.poll() is None, f"the parser ended:\n{self.log.read_text()}"
            try:
                response = self.client.get(path)
                if response.status_code == 200:
                    return self
                answer = response.text
            except httpx.TransportError as error:
                answer = repr(error)
            time.sleep(0.1)
        raise AssertionError(f"not ready after {WAIT_S} s: {answer}\n{self.log.read_text()[-4000:]}")

    def metrics(self) -> dict[str, float]:
        """The values of `/metrics` by name, label and value: `docparser_blocks_total{outcome="ok"}`."""
        lines = (line.rsplit(" ", 1) for line in self.client.get("/metrics").text.splitlines() if line[:1] != "#")
        return {name: float(value) for name, value in lines}

    def parse(self, file: str, **options) -> httpx.Response:
        """`POST /layout-parsing` with a file as base64."""
        return self.client.post("/layout-parsing", json={"file": file, **options})

    def page(self, file: str, **options) -> dict:
        """The only page's entry of a request that must succeed, without pictures unless they are asked for."""
        response = self.parse(file, **{"visualize": False, **options})
        assert response.status_code == 200, response.text
        (entry,) = response.json()["result"]["layoutParsingResults"]
        return entry

    # Jobs.

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

    def state(self, job_id: str, headers: dict | None = None) -> dict:
        answer = self.client.get(f"{JOBS}/{job_id}", headers=headers or {})
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    def wait_for(self, job_id: str, reached: Callable[[dict], object], headers: dict | None = None) -> dict:
        """The job's first state that `reached` accepts."""
        deadline = time.monotonic() + WAIT_S
        state: dict = {}
        while time.monotonic() < deadline:
            state = self.state(job_id, headers)
            if reached(state):
                return state
            time.sleep(0.05)
        raise AssertionError(f"after {WAIT_S} s: {state}\n{self.log.read_text()[-4000:]}")

    def ended(self, job_id: str, headers: dict | None = None) -> dict:
        """The state of a job that is done or has failed."""
        return self.wait_for(job_id, lambda state: state["state"] in ("done", "failed"), headers)

    def lines(self, url: str) -> list[dict]:
        """The results behind an address of JSON lines."""
        answer = httpx.get(url, trust_env=False, timeout=120)
        assert answer.status_code == 200, answer.text
        return [httpx.Response(200, text=line).json()["result"] for line in answer.text.splitlines()]

    def end(self) -> None:
        self.client.close()
        super().end()


def simulated_layout(folder: Path) -> Path:
    """The simulated layout model in ``folder``, whose name tells which. It is built once for what it is made of, by
    Paddle in a process of its own, and kept in .run."""
    made_of = (
        "tests/support/simulated_layout.py",
        "workshop/demo_training/pages/labels.py",
        "config/requirements/parser.txt",
    )
    key = hashlib.sha256(b"".join((ROOT / name).read_bytes() for name in made_of)).hexdigest()[:16]
    kept = ROOT / ".run/simulated-layout" / key / folder.name
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as place:
            fresh = Path(place, folder.name)
            command = [PYTHON, "-m", "tests.support.simulated_layout", str(fresh)]
            built = subprocess.run(
                command, env=child_environment(), capture_output=True, text=True, timeout=WAIT_S, check=False
            )
            assert built.returncode == 0, built.stderr
            with contextlib.suppress(OSError):  # another lane was faster
                fresh.rename(kept)
    return Path(shutil.copytree(kept, folder))


@contextlib.contextmanager
def running_service(folder: Path, main: tuple[str, ...] = REAL, /, **settings: str) -> Iterator[ParserProcess]:
    """A parser that is ready. It ends with the body, and also where it never becomes ready."""
    service = ParserProcess(folder, (), main, **settings)
    try:
        yield service.wait()
    finally:
        service.end()
