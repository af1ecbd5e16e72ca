# SPDX-License-Identifier: Apache-2.0
"""A real VLM server, started by the launcher."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx

from free_ports import free_port
from tests.plugin.programs import LIMIT_S
from tests.support.paths import ROOT


@contextlib.contextmanager
def launched(environment: Mapping[str, str], log: Path) -> Iterator[tuple[str, int]]:
    """Base URL and process number of a server on the CPU that is ready."""
    port = free_port()
    env = {**os.environ, "HARDWARE": "cpu", "VLM_HOST": "127.0.0.1", "VLM_PORT": str(port), **environment}
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
