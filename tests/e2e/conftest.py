# SPDX-License-Identifier: Apache-2.0
"""The real services with the demo weights, started once through scripts/run_demo.sh on free ports."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))

from local_mode import LocalMode, free_port  # noqa: E402

DATA = ROOT / "tests/data"
START_SECONDS = 1500  # generous: two busy cores


def make_local(folder: Path) -> LocalMode:
    """Local mode that can only find the demo weights, whatever else lies in models/."""
    models = folder / "models"
    models.mkdir()
    (models / "demo").symlink_to(ROOT / "models/demo")
    env = {key: value for key, value in os.environ.items()
           if key not in ("VLM_MODEL", "LAYOUT_MODEL_DIR", "VLM_URL", "PYTHONPATH", "HARDWARE")}
    env |= {"MODELS_DIR": str(models), "RUN_DIR": str(folder / "run"), "VLM_PORT": str(free_port()),
            "PARSER_PORT": str(free_port()), "READY_TIMEOUT": str(START_SECONDS)}
    return LocalMode(folder, env)


@pytest.fixture(scope="session")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalMode]:
    """Services that are up, after a first document was parsed; stopped at the end of the session."""
    local = make_local(tmp_path_factory.mktemp("local"))
    try:
        first = local.call(str(DATA / "report.png"), "--out", "first", timeout=START_SECONDS + 300)
        assert first.returncode == 0, first.stderr[-2000:]
        (local.folder / "first.stdout").write_text(first.stdout)
        (local.folder / "first.stderr").write_text(first.stderr)
        yield local
    finally:
        local.call("--down")
