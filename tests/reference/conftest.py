# SPDX-License-Identifier: Apache-2.0
"""Fixtures for the tests of model_code/reference, which run in the environment `reference`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

# Before torch: small matrices on busy cores are slower by orders of magnitude with several threads.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from PIL import Image

from random_checkpoints import make
from random_checkpoints.families import FAMILIES
from tests.support.paths import DEMO_VLM, GOLDEN
from tool_errors import run

Tool = Callable[..., int]


@pytest.fixture(scope="session")
def demo() -> Path:
    return DEMO_VLM


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random weights in small layers."""
    folder = tmp_path_factory.mktemp("small")
    make.save_checkpoint(folder, 1, 1, small=True, seed=0)
    return folder


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A checkpoint of each of the other families, one layer of each kind."""
    folder = tmp_path_factory.mktemp("models")
    for name, save in FAMILIES.items():
        save(folder / name, 1, 1, True, 0)
    return {name: folder / name for name in FAMILIES}


@pytest.fixture(scope="session")
def two_lines(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two images of one size with different text, so that they make the same number of tokens."""
    folder, files = tmp_path_factory.mktemp("lines"), []
    for name in ("title", "terms"):
        canvas = Image.new("RGB", (1040, 112), "white")
        canvas.paste(Image.open(GOLDEN / f"{name}.png").convert("RGB"), (0, 10))
        files.append(folder / f"{name}.png")
        canvas.save(files[-1])
    return files


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Tool:
    """Call a tool's main with a command line, in a folder of the test's own; returns the exit status."""

    def call(module: ModuleType, *words: object) -> int:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["tool", *map(str, words)])
        try:
            return run(module.main)
        except SystemExit as end:  # argparse
            assert isinstance(end.code, int)
            return end.code

    return call
