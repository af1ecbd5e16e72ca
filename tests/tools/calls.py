# SPDX-License-Identifier: Apache-2.0
"""Calls of the scripts as a user makes them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.support.paths import ROOT


def call(
    script: str, *words: object, cwd: Path | None = None, timeout: float = 600, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run one of the scripts as a user does, with ``env`` added to the environment; what it printed is shown where a
    test fails."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / script), *map(str, words)],
        # One thread: small matrices on busy cores are slower by orders of magnitude (docs/decisions/0103).
        env={**os.environ, "OMP_NUM_THREADS": "1", **(env or {})},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    print(f"$ {script} {' '.join(map(str, words))}\n{done.stdout}{done.stderr}exit status {done.returncode}")
    assert "Traceback" not in done.stderr
    return done
