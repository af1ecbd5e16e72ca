# SPDX-License-Identifier: Apache-2.0
"""The layout server as a real process on a free loopback port. It runs in the environment `vlm`."""

from __future__ import annotations

import json
import time
import urllib.request
from pathlib import Path
from typing import Any, Self

from free_ports import free_port
from tests.support.paths import ROOT, python_of
from tests.support.processes import Process, child_environment
from tests.support.wait import WAIT_S

DEMO = ROOT / "models" / "demo" / "PP-DocLayoutV2"
#: Asks this machine itself, whatever proxies are set.
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class LayoutServerProcess(Process):
    def __init__(self, folder: Path) -> None:
        port = free_port()
        own = {"HARDWARE": "cpu", "LAYOUT_PORT": str(port), "LAYOUT_MODEL_DIR": str(DEMO), "LAYOUT_BATCH": "2"}
        env = child_environment("LAYOUT_", "VLM_", **own)
        command = [str(python_of("vlm")), "-m", "layout_server"]
        super().__init__(command, folder / "layout.log", env)
        self.url = f"http://127.0.0.1:{port}"

    def get(self, path: str) -> bytes:
        with OPENER.open(self.url + path, timeout=60) as response:
            return response.read()

    def wait(self) -> Self:
        """Until it answers; fails when the process ends before that."""
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            assert self.process.poll() is None, f"the layout server ended:\n{self.log.read_text()[-4000:]}"
            try:
                self.get("/health")
                return self
            except OSError:
                time.sleep(0.1)
        raise AssertionError(f"not ready after {WAIT_S} s:\n{self.log.read_text()[-4000:]}")

    @property
    def health(self) -> dict[str, Any]:
        return json.loads(self.get("/health"))

    def metrics(self) -> dict[str, float]:
        """The values of `/metrics` by name and labels."""
        lines = (line.rsplit(" ", 1) for line in self.get("/metrics").decode().splitlines() if line[:1] != "#")
        return {name: float(value) for name, value in lines}
