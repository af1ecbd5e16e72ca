# SPDX-License-Identifier: Apache-2.0
"""What the tests of the tools share; they run in the environment ``client``."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(Path(__file__).parent)]

from fake_parser import FakeParser  # noqa: E402

ENVS = Path(os.environ.get("ENVS_DIR") or ROOT / ".venvs")
DEMO = ROOT / "models/demo/PaddleOCR-VL"
GOLDEN = ROOT / "model_code/reference/golden"
Call = Callable[..., subprocess.CompletedProcess[str]]


def call(script: str, *words: object, cwd: Path | None = None, timeout: float = 600, **env: str) -> subprocess.CompletedProcess:
    """Run one of the scripts as a user does; what it printed is shown where a test fails."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / script), *map(str, words)],
        # One thread: small matrices on busy cores are slower by orders of magnitude (docs/decisions/0103).
        env={**os.environ, "OMP_NUM_THREADS": "1", **env}, cwd=cwd, capture_output=True, text=True, timeout=timeout, check=False,
    )  # fmt: skip
    print(f"$ {script} {' '.join(map(str, words))}\n{done.stdout}{done.stderr}exit status {done.returncode}")
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture
def parser() -> Iterator[FakeParser]:
    fake = FakeParser()
    yield fake
    fake.close()


@pytest.fixture
def parse(tmp_path: Path, parser: FakeParser) -> Call:
    """scripts/parse_folder.py with the simulated parser, writing to ``out`` in a folder of the test's own."""

    def run(*words: object, **env: str) -> subprocess.CompletedProcess[str]:
        return call("parse_folder.py", *words, "--out", "out", "--server", parser.url, cwd=tmp_path, **env)

    return run
