# SPDX-License-Identifier: Apache-2.0
"""The plugin's side of eval_accuracy.py: vLLM in an environment whose stack serves the model."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tool_errors import DeviceError, EnvironmentSetupError

from .cases import Case, save_cases

if TYPE_CHECKING:
    from .results import Results


def compute(options: argparse.Namespace, cases: list[tuple[str, Case]], results: Results) -> None:
    """The plugin's logits, by a process of its own environment. Raises EnvironmentSetupError or DeviceError."""
    pythons = [python for python in options.plugin_python if python.is_file()]
    if not pythons:
        raise EnvironmentSetupError(
            f"--plugin_python: {', '.join(map(str, options.plugin_python)) or 'nothing'} is not there; make the "
            "environment with scripts/setup_env.sh vlm (stack 0.11.1) or vlm-0.23"
        )
    exchanged = results.folder / "cases.safetensors"
    save_cases(exchanged, [case for _, case in cases])
    command = [
        "-m",
        "plugin_logits",
        "--model",
        str(options.model_path),
        "--cases",
        str(exchanged),
        "--out",
        str(results.whole),
        "--dtype",
        options.dtype,
    ]
    print("candidate: starting vLLM with the plugin; this takes a minute or two", file=sys.stderr, flush=True)
    # The plugin's log is shown only where it failed. One thread unless the caller wants more: docs/decisions/0103.
    root = Path(__file__).resolve().parents[2]
    paths = os.pathsep.join(str(root / folder) for folder in ("model_code", "common"))
    env = {"OMP_NUM_THREADS": "1", **os.environ, "PYTHONPATH": paths}
    refusal = "no Python is named"
    for python in pythons:
        done = subprocess.run([str(python), *command], env=env, capture_output=True, text=True, check=False)
        if not done.returncode:
            return
        if done.returncode != EnvironmentSetupError.exit_status:
            sys.stderr.write(done.stderr[-4000:])
            raise DeviceError(f"the plugin ended with status {done.returncode}; its last lines are above")
        refusal = done.stderr.strip().splitlines()[-1].removeprefix("error: ")
    # No environment has the stack that the model needs; the last one's line says which that is.
    raise EnvironmentSetupError(f"--plugin_python: {refusal}")
