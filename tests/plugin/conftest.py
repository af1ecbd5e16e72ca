# SPDX-License-Identifier: Apache-2.0
"""Checkpoints, the reference process and a real server for the plugin's tests."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.plugin.checkpoints import name_remote_code
from tests.plugin.programs import LIMIT_S, run_python
from tests.support.paths import DEMO_VLM, ROOT, python_of


@pytest.fixture(scope="session")
def reference_python() -> Path:
    python = python_of("reference")
    if not python.exists():
        pytest.fail(f"{python} is not there; make it with scripts/setup_env.sh reference")
    return python


@pytest.fixture(scope="session")
def small_checkpoint(reference_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random weights in small layers, and files that name remote code as published ones do."""
    directory = tmp_path_factory.mktemp("small") / "PaddleOCR-VL"
    run_python(reference_python, "-m", "reference.random_checkpoint", "--out", directory, "--small")
    name_remote_code(directory)
    return directory


@pytest.fixture(scope="session")
def full_shapes(reference_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random weights in layers of the published shapes, two of each kind, and the published vocabulary."""
    directory = tmp_path_factory.mktemp("full") / "PaddleOCR-VL"
    run_python(reference_python, "-m", "reference.random_checkpoint", "--out", directory)
    return directory


@pytest.fixture(scope="session")
def demo_weights() -> Path:
    assert (DEMO_VLM / "config.json").is_file(), f"{DEMO_VLM} is not there; it is tracked"
    return DEMO_VLM


def free_port() -> int:
    """A free port below those that the system hands out: it is bound only after a minute of imports."""
    for port in random.sample(range(20000, 30000), 100):
        with socket.socket() as trial:
            try:
                trial.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError("no free port found between 20000 and 30000")


@pytest.fixture(scope="session")
def server(started: tuple[str, int]) -> str:
    """Base URL of a real server with the demo weights, started by the launcher with its own defaults."""
    return started[0]


@pytest.fixture(scope="session")
def server_process(started: tuple[str, int]) -> int:
    """Number of that server's process, which decodes images."""
    return started[1]


@pytest.fixture(scope="session")
def started(demo_weights: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    folder, port = tmp_path_factory.mktemp("server"), free_port()
    env = {
        **os.environ,
        "MODELS_DIR": str(demo_weights.parents[1]),
        "HARDWARE": "cpu",
        "VLM_MODEL": "",
        "VLM_HOST": "127.0.0.1",
        "VLM_PORT": str(port),
    }
    log = folder / "vlm.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "vlm_server"],
            cwd=ROOT,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    base, began = f"http://127.0.0.1:{port}", time.monotonic()
    try:
        while not healthy(base):
            assert process.poll() is None, f"the server ended:\n{log.read_text(errors='replace')[-6000:]}"
            assert time.monotonic() - began < LIMIT_S, f"not ready:\n{log.read_text(errors='replace')[-6000:]}"
            time.sleep(1)
        print(f"the server was ready after {time.monotonic() - began:.0f} s")
        yield base, process.pid
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def healthy(base: str) -> bool:
    try:
        return httpx.get(f"{base}/health", timeout=5).status_code == 200
    except httpx.HTTPError:
        return False
