# SPDX-License-Identifier: Apache-2.0
"""What `scripts/test.sh unit` chooses: no test of it can listen on a socket or start a service (tests/conftest.py)."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from tests.conftest import starts_a_service
from tests.support.sandbox import Sandbox


def test_a_unit_test_cannot_listen():
    with (
        socket.socket() as one,
        pytest.raises(AssertionError, match="test_a_unit_test_cannot_listen listens on a socket"),
    ):
        one.listen()


@pytest.mark.server
def test_another_test_can():
    with socket.socket() as one:
        one.listen()


def test_a_unit_test_cannot_start_a_service():
    with pytest.raises(AssertionError, match="starts a service; mark it `server`"):
        subprocess.run([sys.executable, "-m", "docparser"], check=False)


def test_nor_can_a_program_that_it_starts(sandbox: Sandbox):
    program = f"{sandbox.env['ENVS_DIR']}/parser/bin/python -m docparser"
    done = subprocess.run(["sh", "-c", program], env=sandbox.env, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "test_nor_can_a_program_that_it_starts" in done.stderr and "mark it `server`" in done.stderr


@pytest.mark.parametrize(
    ("command", "starts"),
    [
        (["python", "-m", "vlm_server"], True),
        (["python", "-m", "vlm_server", "--print-command"], False),
        ("/venv/bin/vllm serve model", True),
        (["python", "-m", "docparser.api_keys", "make"], False),
        (["python", "-m", "tests.support.simulated_vlm", "8000"], True),
    ],
)
def test_commands_that_start_a_service(command: str | list[str], starts: bool):
    assert starts_a_service(command) == starts
