# SPDX-License-Identifier: Apache-2.0
"""Run a Python tool in its environment: scripts/inference.py and its like call this, started by any Python from 3.9
on."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def tool(environment: str, module: str) -> None:
    """Replace this process by `module` in `environment`, with the same command line (operations/bundle/launch.py)."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(str(ROOT / folder) for folder in ("operations", "common"))}
    os.execve(sys.executable, [sys.executable, "-m", "bundle.launch", environment, module, *sys.argv[1:]], env)
