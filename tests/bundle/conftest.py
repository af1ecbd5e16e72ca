# SPDX-License-Identifier: Apache-2.0
"""A sandbox in which the scripts run against simulated services; tests/e2e uses the real ones."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from free_ports import free_port
from tests.support.processes import PYTHONPATH
from tests.support.sandbox import Sandbox


@contextlib.contextmanager
def simulated_environments(folder: Path) -> Iterator[Sandbox]:
    """A sandbox in ``folder`` whose services are stopped at the end."""
    from bundle.environments.environment import write_stamp
    from bundle.environments.setup import ENVIRONMENTS, settings_of

    envs = folder / "envs"
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
        "RUN_DIR": str(folder / "run"),
        "VLM_PORT": str(free_port()),
        "PARSER_PORT": str(free_port()),
    }
    env.pop("PYTHONPATH", None)
    box = Sandbox(folder, env)
    yield box
    if box.processes():
        box.call("--down")


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    with simulated_environments(tmp_path) as box:
        yield box


@pytest.fixture(scope="module")
def shared_sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A sandbox for the tests of a module that use services which an earlier call has started."""
    with simulated_environments(tmp_path_factory.mktemp("sandbox")) as box:
        yield box
