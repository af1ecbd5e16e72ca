# SPDX-License-Identifier: Apache-2.0
"""Fixtures for the tests of the tools, which run in the environment `client`."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.numbered_pages import NumberedPagesParser
from tests.tools.calls import call

Call = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def parser() -> Iterator[NumberedPagesParser]:
    parser = NumberedPagesParser()
    yield parser
    parser.close()


@pytest.fixture
def parse(tmp_path: Path, parser: NumberedPagesParser) -> Call:
    """scripts/parse_folder.py with the simulated parser, writing to ``out`` in a folder of the test's own."""

    def run(*words: object, **env: str) -> subprocess.CompletedProcess[str]:
        return call("parse_folder.py", *words, "--out", "out", "--server", parser.url, cwd=tmp_path, env=env)

    return run
