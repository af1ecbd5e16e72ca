# SPDX-License-Identifier: Apache-2.0
"""Checkpoints, the reference process and a real server for the plugin's tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import thread_pools
from tests.plugin.programs import ONE_LAYER, run_python
from tests.plugin.server_process import launched
from tests.support.paths import DEMO_VLM, python_of


@pytest.fixture(scope="module", autouse=True)
def thread_pools_are_left_as_they_are() -> Iterator[None]:
    """All processes that later tests start would compute with other threads than the launcher's own."""
    before = {name: os.environ.get(name) for name in thread_pools.POOLS}
    yield
    assert {name: os.environ.get(name) for name in thread_pools.POOLS} == before


@pytest.fixture(scope="session")
def reference_python() -> Path:
    python = python_of("reference")
    if not python.exists():
        pytest.fail(f"{python} is not there; make it with scripts/setup_env.sh reference")
    return python


@pytest.fixture(scope="session")
def full_shapes(reference_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random weights in layers of the published shapes, one of each kind, and the published vocabulary."""
    directory = tmp_path_factory.mktemp("full") / "PaddleOCR-VL"
    run_python(reference_python, "-m", "random_checkpoints.make", "--out", directory, *ONE_LAYER)
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
