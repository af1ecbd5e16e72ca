# SPDX-License-Identifier: Apache-2.0
"""One program in Paddle, and in the layout server's PyTorch, which another environment has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from docparser.layout.conversion import run_in_paddle
from paddle_program.program import model_files
from tests.support.paths import ROOT
from tests.support.processes import run_module


def in_both(folder: Path, inputs: dict[str, np.ndarray], decided: list[int]) -> tuple[list[np.ndarray], dict]:
    """Paddle's results of the program in ``folder``, and what the script in torch says of its own."""
    results, known = run_in_paddle(*model_files(folder), inputs, decided)
    told: dict[str, Any] = {f"in_{name}": value for name, value in inputs.items()}
    told |= {f"out_{number}": value for number, value in enumerate(results)}
    told |= {f"decided_{number}": value for number, value in known.items()}
    np.savez(folder / "paddle.npz", **told)
    script = ROOT / "tests/layout/programs_in_torch.py"
    return results, json.loads(run_module("vlm", script, folder).splitlines()[-1])
