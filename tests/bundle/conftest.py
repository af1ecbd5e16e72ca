# SPDX-License-Identifier: Apache-2.0
"""Paths, and a sandbox in which the scripts run against fake services (the end-to-end tests use the real ones)."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "model_code")]

PNG = bytes.fromhex("89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de"
                    "0000000c4944415478da63f8ffff3f0005fe02fe0def46b80000000049454e44ae426082")


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return trial.getsockname()[1]


@dataclass
class Sandbox:
    """A scratch ENVS_DIR and RUN_DIR; the `vlm` and `parser` environments in it are fakes that answer at once."""

    folder: Path
    env: dict[str, str]

    def run(self, *words: str, **extra: str) -> subprocess.CompletedProcess[str]:
        """Call scripts/run_demo.sh in the sandbox."""
        return subprocess.run([str(ROOT / "scripts/run_demo.sh"), *words], env={**self.env, **extra}, cwd=self.folder,
                              capture_output=True, text=True, timeout=120, check=False)

    def popen(self, *words: str, **extra: str) -> subprocess.Popen[str]:
        """Start scripts/run_demo.sh in the sandbox and do not wait for it."""
        return subprocess.Popen([str(ROOT / "scripts/run_demo.sh"), *words], env={**self.env, **extra}, text=True,
                                cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def write(self, name: str, data: bytes = PNG) -> str:
        """Write an input file; returns its path."""
        path = self.folder / name
        path.write_bytes(data)
        return str(path)

    def processes(self) -> list[str]:
        """Command lines of the living processes that were started with this sandbox's RUN_DIR."""
        mark = f"RUN_DIR={self.env['RUN_DIR']}".encode()
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (process / "environ").read_bytes().split(b"\0"):
                    command = (process / "cmdline").read_bytes()
                    if command:
                        found.append(command.replace(b"\0", b" ").decode())
            except OSError:
                continue
        return found


@pytest.fixture
def sandbox(tmp_path: Path):
    """A sandbox whose services are stopped at the end of the test."""
    from bundle.environments import ENVIRONMENTS, settings_of
    from bundle.stamp import write_stamp

    envs = tmp_path / "envs"
    envs.mkdir()
    (envs / "tools").symlink_to(Path(sys.prefix))
    for name in ("vlm", "parser"):
        binaries = envs / name / "bin"
        binaries.mkdir(parents=True)
        fake = binaries / "python"
        fake.write_text(f"#!/bin/sh\nexec {sys.executable} {ROOT}/tests/bundle/fake_services.py \"$@\"\n")
        fake.chmod(0o755)
        write_stamp(envs / name, ENVIRONMENTS[name].inputs, settings_of(ENVIRONMENTS[name]))
    env = {**os.environ, "ENVS_DIR": str(envs), "RUN_DIR": str(tmp_path / "run"), "VLM_PORT": str(free_port()),
           "PARSER_PORT": str(free_port())}
    env.pop("PYTHONPATH", None)
    box = Sandbox(tmp_path, env)
    yield box
    if box.processes():
        box.run("--down")
