# SPDX-License-Identifier: Apache-2.0
"""Start a Python tool in the environment that it needs; scripts/inference.py and its like consist of this."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from bundle.environments.setup import ENVIRONMENTS
from bundle.paths import shown
from tool_errors import EnvironmentSetupError


def interpreter(name: str, words: list[str]) -> Path:
    """Return the Python of an environment, or this Python if only help is asked for.

    Raises EnvironmentSetupError if the environment is missing. The tools never make one by themselves, because on an
    NPU it holds a torch_npu that the lock does not know.
    """
    if "-h" in words or "--help" in words:
        return Path(sys.executable)
    python = ENVIRONMENTS[name].python
    if not python.is_file():
        raise EnvironmentSetupError(
            f"the environment {name} is not there ({shown(python)}); make it with scripts/setup_env.sh {name}"
        )
    return python


def launch(name: str, module: str, words: list[str]) -> int:
    """Replace this process by `module` in the environment `name`; returns an exit status only if that fails."""
    try:
        python = interpreter(name, words)
    except EnvironmentSetupError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_status
    own = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    if "PLUGIN_PYTHON" not in os.environ:
        own["PLUGIN_PYTHON"] = os.pathsep.join(str(ENVIRONMENTS[name].python) for name in ("vlm", "vlm-0.23"))
    # PYTHONPATH stays as scripts/lib/launch.py made it.
    env = {**os.environ, **own}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    os.execve(python, [str(python), "-m", module, *words], env)


if __name__ == "__main__":
    sys.exit(launch(sys.argv[1], sys.argv[2], sys.argv[3:]))
