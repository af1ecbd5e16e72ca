# SPDX-License-Identifier: Apache-2.0
"""The parser for tests that ask it along its OpenAPI description, and with the programs of others."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from free_ports import free_port
from tests.support.callback_receiver import SECRET
from tests.support.paths import ROOT, python_of
from tests.support.processes import child_environment

KEY = "a-key-of-the-operator"


def without_proxies() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}


@contextlib.contextmanager
def running_parser(folder: Path, *words: str) -> Iterator[str]:
    """The address of a parser (`parser_for_requests`) that runs as long as the context."""
    with (folder / "start.log").open("wb") as log:
        process = subprocess.Popen(
            [str(python_of("parser")), "-m", "tests.api.parser_for_requests", str(folder), *words],
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


@pytest.fixture(scope="session")
def parser_url(tmp_path_factory) -> Iterator[str]:
    with running_parser(tmp_path_factory.mktemp("parser")) as url:
        yield url


@pytest.fixture(scope="session")
def callback_port() -> int:
    """Where a test may listen for what the parser of ``guarded_url`` calls."""
    return free_port()


@pytest.fixture(scope="session")
def guarded_url(tmp_path_factory, callback_port: int) -> Iterator[str]:
    """A parser that asks for KEY, and calls back at ``callback_port``."""
    settings = {
        "PARSER_CALLBACK_HOSTS": f"127.0.0.1:{callback_port}",
        "PARSER_CALLBACK_NETWORKS": "127.0.0.0/8",
        "PARSER_CALLBACK_SECRETS": SECRET,
    }
    words = [f"{name}={value}" for name, value in settings.items()]
    with running_parser(tmp_path_factory.mktemp("guarded"), KEY, *words) as url:
        yield url


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what tests/api/typescript names, for tests that need nodejs and npm."""
    folder = tmp_path_factory.mktemp("sdk") / "typescript"
    shutil.copytree(ROOT / "tests/api/typescript", folder)
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert not done.returncode, done.stderr
    return folder
