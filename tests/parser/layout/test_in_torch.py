# SPDX-License-Identifier: Apache-2.0
"""The layout server's operations in PyTorch, each alone, give Paddle's values."""

from __future__ import annotations

import pytest

from tests.support.in_torch import in_both
from tests.support.operator_program import draw
from tests.support.processes import run_module

pytestmark = [pytest.mark.model, pytest.mark.long]


def test_every_operation_gives_paddles_values(tmp_path):
    run_module("parser", "tests.support.operator_program", tmp_path)
    results, found = in_both(tmp_path, draw(), [])
    del found["operators"]
    assert found == {"results": len(results), "wrong": [], "untried": [], "plan_differs": []}
