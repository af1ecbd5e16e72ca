# SPDX-License-Identifier: Apache-2.0
"""Paths, and a sandbox in which the scripts run against fake services (the end-to-end tests use the real ones)."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "model_code"), str(ROOT / "tests/support")]

from local_mode import LocalMode, free_port  # noqa: E402

PNG = bytes.fromhex("89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de"
                    "0000000c4944415478da63f8ffff3f0005fe02fe0def46b80000000049454e44ae426082")


class Sandbox(LocalMode):
    """Scratch folders in which the `vlm` and `parser` environments are fakes that answer at once."""

    def write(self, name: str, data: bytes = PNG) -> str:
        """Write an input file; returns its path."""
        path = self.folder / name
        path.write_bytes(data)
        return str(path)


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
        box.call("--down")
