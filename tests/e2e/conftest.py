# SPDX-License-Identifier: Apache-2.0
"""The real services with the demo weights, started once through scripts/run_demo.sh on free ports."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests/data"
START_SECONDS = 1500  # generous: two busy cores


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return trial.getsockname()[1]


@dataclass
class Local:
    """Local mode in a RUN_DIR and on ports of its own."""

    folder: Path
    env: dict[str, str]

    @property
    def parser_url(self) -> str:
        return f"http://127.0.0.1:{self.env['PARSER_PORT']}"

    @property
    def vlm_url(self) -> str:
        return f"http://127.0.0.1:{self.env['VLM_PORT']}"

    def call(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run scripts/run_demo.sh in the folder; its stderr is shown with the test's output."""
        began = time.monotonic()
        result = subprocess.run([str(ROOT / "scripts/run_demo.sh"), *words], cwd=self.folder, env=self.env, text=True,
                                capture_output=True, timeout=START_SECONDS + 300, check=False)
        sys.stderr.write(result.stderr)
        print(f"run_demo.sh {' '.join(words)}: status {result.returncode}, {time.monotonic() - began:.1f} s")
        return result

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start scripts/run_demo.sh and do not wait for it."""
        return subprocess.Popen([str(ROOT / "scripts/run_demo.sh"), *words], cwd=self.folder, env=self.env, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def processes(self) -> list[str]:
        """Command lines of the living processes that were started with this RUN_DIR."""
        mark = f"RUN_DIR={self.env['RUN_DIR']}".encode()
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (process / "environ").read_bytes().split(b"\0"):
                    found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
        return [line for line in found if line]


def make_local(folder: Path) -> Local:
    """Local mode that can only find the demo weights, whatever else lies in models/."""
    models = folder / "models"
    models.mkdir()
    (models / "demo").symlink_to(ROOT / "models/demo")
    env = {key: value for key, value in os.environ.items()
           if key not in ("VLM_MODEL", "LAYOUT_MODEL_DIR", "VLM_URL", "PYTHONPATH", "HARDWARE")}
    env |= {"MODELS_DIR": str(models), "RUN_DIR": str(folder / "run"), "VLM_PORT": str(free_port()),
            "PARSER_PORT": str(free_port()), "READY_TIMEOUT": str(START_SECONDS)}
    return Local(folder, env)


@pytest.fixture(scope="session")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    """Services that are up, after a first document was parsed; stopped at the end of the session."""
    local = make_local(tmp_path_factory.mktemp("local"))
    try:
        first = local.call(str(DATA / "report.png"), "--out", "first")
        assert first.returncode == 0, first.stderr[-2000:]
        (local.folder / "first.stdout").write_text(first.stdout)
        (local.folder / "first.stderr").write_text(first.stderr)
        yield local
    finally:
        local.call("--down")
