# SPDX-License-Identifier: Apache-2.0
"""Tests of layout and pages run in the environment `parser`, tests of the VLM in `reference`, where training runs."""

import subprocess
from pathlib import Path

import pytest

from tests.support.paths import python_of
from tests.support.processes import child_environment


def run_module(environment: str, module: str | Path, *arguments: object, timeout: float = 900) -> str:
    """Run a module or a script file in an environment; its standard output. Fails with its last words."""
    python = python_of(environment)
    if not python.exists():
        pytest.fail(f"{python} is missing; make it with: scripts/setup_env.sh {environment}")
    done = subprocess.run(
        [str(python), *([module] if isinstance(module, Path) else ["-m", module]), *map(str, arguments)],
        env=child_environment(PYTHONUNBUFFERED="1"),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, f"{module} ended with {done.returncode}:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture
def in_torch():
    """Runs a module where torch is."""
    return lambda module, *arguments, **options: run_module("reference", module, *arguments, **options)


@pytest.fixture
def in_paddle():
    """Runs a module where Paddle is."""
    return lambda module, *arguments, **options: run_module("parser", module, *arguments, **options)
