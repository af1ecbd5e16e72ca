# SPDX-License-Identifier: Apache-2.0
"""The parser for tests that ask it along its OpenAPI description."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from tests.support.paths import python_of
from tests.support.processes import child_environment


@pytest.fixture(scope="session")
def parser_url(tmp_path_factory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("parser")
    with (folder / "start.log").open("wb") as log:
        process = subprocess.Popen(
            [str(python_of("parser")), "-m", "tests.api.parser_for_requests", str(folder)],
            env=child_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        assert process.stdin is not None and process.stdout is not None, "they are pipes"
        try:
            url = process.stdout.readline().strip()
            assert url, (folder / "start.log").read_text()[-3000:]
            yield url
        finally:
            process.stdin.close()
            process.wait(60)
