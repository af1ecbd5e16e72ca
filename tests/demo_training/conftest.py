# SPDX-License-Identifier: Apache-2.0
"""The tests of layout and pages run in the parser environment, those of the VLM where training runs: in the reference one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODEL_CODE = ROOT / "model_code"
ENVIRONMENTS = Path(os.environ.get("ENVS_DIR") or ROOT / ".venvs")

sys.path.insert(0, str(MODEL_CODE))


def run_module(environment: str, module: str | Path, *arguments: object, timeout: float = 900) -> str:
    """Run a module or a script file in an environment; its standard output. Fails with its last words."""
    python = ENVIRONMENTS / environment / "bin" / "python"
    if not python.exists():
        pytest.fail(f"{python} is missing; make it with: scripts/setup_env.sh {environment}")
    done = subprocess.run(
        [str(python), *([module] if isinstance(module, Path) else ["-m", module]), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(MODEL_CODE), "PYTHONUNBUFFERED": "1"},
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
