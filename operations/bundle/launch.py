# SPDX-License-Identifier: Apache-2.0
"""Start a Python tool in the environment that it needs; scripts/inference.py and its like consist of this."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from bundle import parser_client
from bundle.environments.setup import ENVIRONMENTS, python_of
from bundle.paths import VALUES
from tool_errors import run


def interpreter(name: str, words: list[str]) -> Path:
    """Return the Python of an environment, or this Python if only help is asked for.

    Raises EnvironmentSetupError if the environment is missing. The tools never make one by themselves, because on an
    NPU it holds a torch_npu that the lock does not know.
    """
    return Path(sys.executable) if "-h" in words or "--help" in words else python_of(name)


def launch(name: str, module: str, words: list[str]) -> None:
    """Replace this process by `module` in the environment `name`. Raises EnvironmentSetupError as `interpreter`, and
    UsageError for a wrong PARSER_PORT."""
    python = interpreter(name, words)
    own = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    if "PLUGIN_PYTHON" not in os.environ:
        own["PLUGIN_PYTHON"] = os.pathsep.join(str(ENVIRONMENTS[name].python) for name in ("vlm", "vlm-0.23"))
    # Keys of .env, which these do not read: of the parser that --test_pages ask, and of the VLM servers.
    if key := {"reference.accuracy": "PARSER_API_KEY", "corpus": "PARSER_VLM_API_KEY"}.get(module):
        own[key] = VALUES.get(key, "")
    if module == "reference.accuracy":
        words = ["--parser", parser_client.address(VALUES), *words]
    # PYTHONPATH stays as scripts/lib/launch.py made it.
    env = {**os.environ, **own}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    os.execve(python, [str(python), "-m", module, *words], env)


if __name__ == "__main__":
    sys.exit(run(lambda: launch(sys.argv[1], sys.argv[2], sys.argv[3:])))
