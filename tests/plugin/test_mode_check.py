# SPDX-License-Identifier: Apache-2.0
"""python -m vlm_server.mode_check with a real server: on a CPU there is one mode, and it reads the crop each time."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support.paths import ROOT
from tests.support.processes import child_environment

pytestmark = [pytest.mark.model, pytest.mark.long]


def test_a_server_is_started_measured_and_ended():
    env = child_environment() | {
        "HARDWARE": "cpu",
        "MODELS_DIR": str(ROOT / "models"),
        "VLM_MODEL": "demo/PaddleOCR-VL",
        "VLM_ARGS": "--api-key secret",
    }
    done = subprocess.run(
        # One round of each size instead of four: figures are printed, not judged.
        [sys.executable, "-c", "from vlm_server import mode_check as m; m.ROUNDS = 1; raise SystemExit(m.run(m.main))"],
        env=env,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    [found] = json.loads(done.stdout.strip().splitlines()[-1])
    assert found["mode"] == found["problem"] == "" and found["text"].startswith("Eleven villages")
    assert set(found["tokens_per_second"]) == {"1", "3", "16"} and min(found["tokens_per_second"].values()) > 0
