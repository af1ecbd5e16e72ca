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
    own = [str(ROOT / folder) for folder in ("operations", "common", "model_code")]
    # Before what the caller has there: CANN's set_env.sh names CANN's own modules so.
    path = os.pathsep.join([*own, *filter(None, [os.environ.get("PYTHONPATH")])])
    words = [sys.executable, "-m", "bundle.launch", environment, module, *sys.argv[1:]]
    os.execve(sys.executable, words, {**os.environ, "PYTHONPATH": path})
