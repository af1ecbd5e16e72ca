# SPDX-License-Identifier: Apache-2.0
"""The layout server's operations in PyTorch, each alone, give Paddle's values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from docparser.layout.conversion import run_in_paddle
from paddle_program.program import model_files
from tests.support.operator_program import draw
from tests.support.paths import ROOT
from tests.support.processes import run_module

pytestmark = [pytest.mark.model, pytest.mark.long]


def test_every_operation_gives_paddles_values(tmp_path):
    run_module("parser", "tests.support.operator_program", tmp_path)
    results, found = in_both(tmp_path, draw(), [])
    del found["operators"]
    assert found == {"results": len(results), "wrong": [], "untried": [], "plan_differs": []}


def in_both(folder: Path, inputs: dict[str, np.ndarray], decided: list[int]) -> tuple[list[np.ndarray], dict]:
    """Paddle's results of the program in ``folder``, and what the script in torch says of its own."""
    results, known = run_in_paddle(*model_files(folder), inputs, decided)
    told: dict[str, Any] = {f"in_{name}": value for name, value in inputs.items()}
    told |= {f"out_{number}": value for number, value in enumerate(results)}
    told |= {f"decided_{number}": value for number, value in known.items()}
    np.savez(folder / "paddle.npz", **told)
    script = ROOT / "tests/layout/programs_in_torch.py"
    return results, json.loads(run_module("vlm", script, folder).splitlines()[-1])
