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


def python_of(options: argparse.Namespace) -> Path:
    """The Python of the first environment whose stack serves the model. Raises EnvironmentSetupError or DeviceError."""
    pythons = [python for python in options.plugin_python if python.is_file()]
    if not pythons:
        raise EnvironmentSetupError(
            f"--plugin_python: {', '.join(map(str, options.plugin_python)) or 'nothing'} is not there; make the "
            "environment with scripts/setup_env.sh vlm (stack 0.11.1) or vlm-0.23"
        )
    refusal = ""
    for python in pythons:
        done = ask(python, options)
        if not done.returncode:
            return python
        if done.returncode != EnvironmentSetupError.exit_status:
            raise broken(done)
        refusal = done.stderr.strip().splitlines()[-1].removeprefix("error: ")
    # No environment has the stack that the model needs; the last one's line says which that is.
    raise EnvironmentSetupError(f"--plugin_python: {refusal}")


def compute(python: Path, options: argparse.Namespace, cases: list[tuple[str, Case]], results: Results) -> None:
    """The plugin's logits, by a process of its own environment. Raises DeviceError."""
    exchanged = results.folder / "cases.safetensors"
    save_cases(exchanged, [case for _, case in cases])
    print("candidate: starting vLLM with the plugin; this takes a minute or two", file=sys.stderr, flush=True)
    done = ask(python, options, "--cases", str(exchanged), "--out", str(results.whole), "--dtype", options.dtype)
    if done.returncode:
        raise broken(done)


def ask(python: Path, options: argparse.Namespace, *words: str) -> subprocess.CompletedProcess[str]:
    """Run ``plugin_logits``; without ``words`` it only says whether its stack serves the model."""
    command = [str(python), "-m", "plugin_logits", "--model", str(options.model_path), *words]
    # One thread unless the caller wants more: docs/decisions/0103.
    env = {"OMP_NUM_THREADS": "1", **os.environ}
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


def broken(done: subprocess.CompletedProcess[str]) -> DeviceError:
    """What to raise for a plugin that failed. Only then its log is shown."""
    sys.stderr.write(done.stderr[-4000:])
    return DeviceError(f"the plugin ended with status {done.returncode}; its last lines are above")
