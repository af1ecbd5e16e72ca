# SPDX-License-Identifier: Apache-2.0
"""The parser as a user has it: a real process with the real PaddleOCR pipeline, on a free loopback port.

Simulated are only the VLM (``fake_vlm``) and the layout model's weights (``placeholder_layout``).
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

HERE = Path(__file__).resolve().parent
PARSER = HERE.parents[1] / "parser"
sys.path[:0] = [str(PARSER), str(HERE)]

from fake_vlm import FakeVlm  # noqa: E402

START_S = 480  # two busy cores load Paddle slowly


def wait_for(condition, seconds: float = START_S) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.05)


# Limits that tests can reach.
LIMITS = {
    "PARSER_MAX_PAGES": "6",
    "PARSER_MAX_BODY_MIB": "8",
    "PARSER_MAX_IMAGE_PIXELS": "9000000",
    "PARSER_VLM_TIMEOUT_S": "15",
    "PARSER_PAGES_IN_FLIGHT": "4",
}


class Service:
    """A running parser. ``log`` is the file that its output goes to."""

    def __init__(self, folder: Path, wrapper: tuple[str, ...] = (), **env: str):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.log = folder / "parser.log"
        own = {
            "PARSER_PORT": str(self.port),
            "PARSER_CACHE_DIR": str(folder / "cache"),
            "PARSER_SPOOL_DIR": str(folder / "spool"),
            "PARSER_DATA_DIR": str(folder / "data"),
            "PARSER_WORKERS": "1",
            "PARSER_CPU_THREADS": "1",
            "PYTHONPATH": str(PARSER),
        }
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("PARSER_", "VLM_", "PADDLE_"))}
        kept.pop("PYTHONDONTWRITEBYTECODE", None)  # compiling PaddleX anew at every start takes 7 s
        self.process = subprocess.Popen(
            [*wrapper, sys.executable, "-m", "docparser"],
            env={**kept, **own, **env},
            cwd=folder,
            stdout=self.log.open("ab"),
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=300, trust_env=False)

    def wait(self, path: str = "/health/ready") -> Service:
        """Until ``path`` answers 200."""
        deadline = time.monotonic() + START_S
        answer = "nothing"
        while time.monotonic() < deadline:
            assert self.process.poll() is None, f"the parser ended:\n{self.log.read_text()}"
            try:
                response = self.client.get(path)
                if response.status_code == 200:
                    return self
                answer = response.text
            except httpx.TransportError as exc:
                answer = repr(exc)
            time.sleep(0.2)
        raise AssertionError(f"not ready after {START_S} s: {answer}\n{self.log.read_text()}")

    def metrics(self) -> dict[str, float]:
        """The values of ``/metrics`` by name, and by name, label and value: ``docparser_blocks_total{outcome="ok"}``."""
        lines = (line.rsplit(" ", 1) for line in self.client.get("/metrics").text.splitlines() if line[:1] != "#")
        return {name: float(value) for name, value in lines}

    def parse(self, file: str, **options) -> httpx.Response:
        return self.client.post("/layout-parsing", json={"file": file, **options})

    def page(self, file: str, **options) -> dict:
        """The only page's entry of a request that must succeed, without pictures unless they are asked for."""
        response = self.parse(file, **{"visualize": False, **options})
        assert response.status_code == 200, response.text
        (entry,) = response.json()["result"]["layoutParsingResults"]
        return entry

    def close(self) -> None:
        self.client.close()
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            raise


@pytest.fixture(scope="session")
def layout_model(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("layout") / "PP-DocLayoutV2"
    built = subprocess.run(
        [sys.executable, str(HERE / "placeholder_layout.py"), str(folder)],
        capture_output=True,
        text=True,
        timeout=START_S,
    )
    assert built.returncode == 0, built.stderr
    return folder


@pytest.fixture(scope="session")
def _vlm():
    server = FakeVlm()
    yield server
    server.close()


@pytest.fixture
def vlm(_vlm):
    """The simulated VLM server, as new."""
    _vlm.reset()
    yield _vlm
    _vlm.reset()


@pytest.fixture(scope="session")
def _service(tmp_path_factory, layout_model, _vlm):
    running = Service(
        tmp_path_factory.mktemp("service"), VLM_URL=_vlm.url, LAYOUT_MODEL_DIR=str(layout_model), **LIMITS
    )
    try:
        yield running.wait()
    finally:
        running.close()


@pytest.fixture
def service(_service, vlm):
    """The running parser, with its VLM as new."""
    return _service.wait()


@pytest.fixture
def start_service(tmp_path, layout_model):
    """Starts further parsers, with other settings; they end with the test."""
    running = []

    def start(wrapper: tuple[str, ...] = (), **env: str) -> Service:
        running.append(Service(tmp_path, wrapper, **{"LAYOUT_MODEL_DIR": str(layout_model), **env}))
        return running[-1]

    yield start
    for service in running:
        service.close()
