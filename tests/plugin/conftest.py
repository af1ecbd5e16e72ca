# SPDX-License-Identifier: Apache-2.0
"""Checkpoints, the reference process and a real server for the plugin's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.plugin.programs import run_python
from tests.plugin.server_process import launched
from tests.support.paths import DEMO_VLM, python_of


@pytest.fixture(scope="session")
def reference_python() -> Path:
    python = python_of("reference")
    if not python.exists():
        pytest.fail(f"{python} is not there; make it with scripts/setup_env.sh reference")
    return python


@pytest.fixture(scope="session")
def full_shapes(reference_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random weights in layers of the published shapes, two of each kind, and the published vocabulary."""
    directory = tmp_path_factory.mktemp("full") / "PaddleOCR-VL"
    run_python(reference_python, "-m", "random_checkpoints.make", "--out", directory)
    return directory


@pytest.fixture(scope="session")
def demo_weights() -> Path:
    assert (DEMO_VLM / "config.json").is_file(), f"{DEMO_VLM} is not there; it is tracked"
    return DEMO_VLM


@pytest.fixture(scope="session")
def server(started: tuple[str, int]) -> str:
    """Base URL of a real server with the demo weights, started by the launcher with its own defaults."""
    return started[0]


@pytest.fixture(scope="session")
def server_process(started: tuple[str, int]) -> int:
    """Number of that server's process, which decodes images."""
    return started[1]


@pytest.fixture(scope="session")
def started(demo_weights: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    environment = {"MODELS_DIR": str(demo_weights.parents[1]), "VLM_MODEL": ""}
    with launched(environment, tmp_path_factory.mktemp("server") / "vlm.log") as found:
        yield found
