# SPDX-License-Identifier: Apache-2.0
"""Start a tool in the environment that it needs: what scripts/inference.py and its like consist of."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from .environments import ENVIRONMENTS
from .errors import EnvironmentSetupError, exit_status
from .paths import ROOT, shown


def interpreter(name: str, words: list[str]) -> Path:
    """The Python of an environment; any will do where only help is asked for.

    Raises EnvironmentSetupError where the environment is missing: these tools never make one by themselves, because on an
    NPU it holds a torch_npu that the lock does not know.
    """
    if "-h" in words or "--help" in words:
        return Path(sys.executable)
    python = ENVIRONMENTS[name].python
    if not python.is_file():
        raise EnvironmentSetupError(f"the environment {name} is not there ({shown(python)}); "
                                    f"make it with scripts/setup_env.sh {name}")
    return python


def start(name: str, module: str, folder: str) -> int:
    """Replace this process by `module` (found in `folder`, counted from the root) in the environment `name`.

    Returns only where that fails.
    """
    words = sys.argv[1:]
    try:
        python = interpreter(name, words)
    except EnvironmentSetupError as error:
        print(f"error: {error}", file=sys.stderr)
        return exit_status(error)
    own = {"PYTHONPATH": str(ROOT / folder), "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    if "PLUGIN_PYTHON" not in os.environ:
        own["PLUGIN_PYTHON"] = str(ENVIRONMENTS["vlm"].python)
    env = {**os.environ, **own}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    os.execve(python, [str(python), "-m", module, *words], env)
    return 1
