# SPDX-License-Identifier: Apache-2.0
"""Local mode as the end-to-end tests use it."""

from __future__ import annotations

import os
from pathlib import Path

from free_ports import free_port
from tests.support.local_mode import LocalMode
from tests.support.paths import DEMO_MODELS

START_SECONDS = 1500  # two busy cores are slow


def make_local(folder: Path) -> LocalMode:
    """Local mode that can only find the demo weights, whatever else lies in models/."""
    models = folder / "models"
    models.mkdir()
    (models / "demo").symlink_to(DEMO_MODELS)
    env = {
        key: value
        for key, value in os.environ.items()
        if key not in ("VLM_MODEL", "LAYOUT_MODEL_DIR", "LAYOUT_URL", "VLM_URL", "PYTHONPATH", "HARDWARE")
    }
    env |= {
        "MODELS_DIR": str(models),
        "RUN_DIR": str(folder / "run"),
        "VLM_PORT": str(free_port()),
        "PARSER_PORT": str(free_port()),
        # With a layout server, whose plans for several pages would take further seconds to make.
        "LAYOUT_SERVER": "1",
        "LAYOUT_PORT": str(free_port()),
        "LAYOUT_BATCH": "1",
        "READY_TIMEOUT": str(START_SECONDS),
    }
    return LocalMode(folder, env)
