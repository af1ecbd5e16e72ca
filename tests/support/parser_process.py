# SPDX-License-Identifier: Apache-2.0
"""The parser as a user has it: a real process on a free loopback port, with settings of its own.

It runs in the environment `parser`. Tests in other environments can start it as well; they need httpx.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Self

import httpx

from tests.support.paths import python_of
from tests.support.processes import Process, child_environment, free_port
from tests.support.wait import WAIT_S

PYTHON = str(python_of("parser") if python_of("parser").exists() else sys.executable)

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
        main: tuple[str, ...] = ("-m", "docparser"),
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

    def end(self) -> None:
        self.client.close()
        super().end()
