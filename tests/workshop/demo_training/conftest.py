# SPDX-License-Identifier: Apache-2.0
"""Tests of layout and pages run in the environment `parser`, tests of the VLM in `reference`, where training runs."""

import pytest

from tests.support.processes import run_module


@pytest.fixture
def in_torch():
    """Runs a module where torch is."""
    return lambda module, *arguments, **options: run_module("reference", module, *arguments, **options)


@pytest.fixture
def in_paddle():
    """Runs a module where Paddle is."""
    return lambda module, *arguments, **options: run_module("parser", module, *arguments, **options)
