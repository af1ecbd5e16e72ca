# SPDX-License-Identifier: Apache-2.0
"""Places in the tree, and the interpreters of the other environments."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests/data"
LETTER = DATA / "letter.png"
NOTE = ROOT / "tests/images/note.png"  # a page that takes a third of the letter's processor time
MODEL_CODE = ROOT / "model_code"
DEMO_MODELS = ROOT / "models/demo"
DEMO_VLM = DEMO_MODELS / "PaddleOCR-VL"
DEMO_LAYOUT = DEMO_MODELS / "PP-DocLayoutV2"
GOLDEN = ROOT / "common/selftest/golden"
ENVIRONMENTS = Path(os.environ.get("ENVS_DIR") or ROOT / ".venvs")


def python_of(environment: str) -> Path:
    """The interpreter of an environment that scripts/setup_env.sh makes; it may be missing."""
    return ENVIRONMENTS / environment / "bin/python"
