# SPDX-License-Identifier: Apache-2.0
"""scripts/audit_requirements.sh: make the environment `tools`, and compare the locks with advisories in it."""

from __future__ import annotations

import os
import subprocess
import sys

from bundle.environments.setup import ENVIRONMENTS, set_up
from bundle.paths import ROOT
from tool_errors import run


def main(words: list[str]) -> int:
    if set(words) & {"-h", "--help"}:
        print("usage: scripts/audit_requirements.sh [LOCK...]\nADVISORIES: a folder or ZIP of OSV records")
        return 0
    tools = ENVIRONMENTS["tools"]
    set_up(tools)
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    command = [str(tools.python), "-m", "bundle.environments.advisories", *words]
    return subprocess.run(command, cwd=ROOT, env=env, check=False).returncode


if __name__ == "__main__":
    sys.exit(run(lambda: main(sys.argv[1:])))
