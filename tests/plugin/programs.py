# SPDX-License-Identifier: Apache-2.0
"""Runs a program of the tree in this environment or another one."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.paths import ROOT
from tests.support.processes import child_environment

LIMIT_S = 900  # the machine may be busy with other work
# Words of random_checkpoints.make for layers of the published shapes. Small checkpoints have two in a row.
ONE_LAYER = ("--vision-layers", 1, "--text-layers", 1)


def run_python(python: str | Path, *words: object) -> None:
    """Run a program of ours; its output is shown when it fails."""
    # One thread: small matrices on two busy cores are slower by orders of magnitude (docs/decisions/0103).
    env = child_environment(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", OMP_NUM_THREADS="1")
    done = subprocess.run(
        [str(python), *map(str, words)],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, f"{words}: exit status {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-6000:]}"
