# SPDX-License-Identifier: Apache-2.0
"""A sandbox in which the scripts run against simulated services; tests/e2e uses the real ones."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.support.processes import PYTHONPATH, free_port
from tests.support.sandbox import Sandbox


@pytest.fixture
def sandbox(tmp_path: Path):
    """A sandbox whose services are stopped at the end of the test."""
    from bundle.environments.setup import ENVIRONMENTS, settings_of
    from bundle.environments.stamp import write_stamp

    envs = tmp_path / "envs"
    envs.mkdir()
    (envs / "tools").symlink_to(Path(sys.prefix))
    for name in ("vlm", "parser"):
        binaries = envs / name / "bin"
        binaries.mkdir(parents=True)
        simulated = binaries / "python"
        command = f'PYTHONPATH="{PYTHONPATH}" exec {sys.executable} -m tests.support.simulated_services "$@"'
        simulated.write_text(f"#!/bin/sh\n{command}\n")
        simulated.chmod(0o755)
        write_stamp(envs / name, ENVIRONMENTS[name].inputs, settings_of(ENVIRONMENTS[name]))
    env = {
        **os.environ,
        "ENVS_DIR": str(envs),
        "RUN_DIR": str(tmp_path / "run"),
        "VLM_PORT": str(free_port()),
        "PARSER_PORT": str(free_port()),
    }
    env.pop("PYTHONPATH", None)
    box = Sandbox(tmp_path, env)
    yield box
    if box.processes():
        box.call("--down")
