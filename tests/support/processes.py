# SPDX-License-Identifier: Apache-2.0
"""Processes that tests start: their environment, their ports, their end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.paths import MODEL_CODE, ROOT, python_of

# What pytest.ini puts on the path of the tests themselves.
PYTHONPATH = os.pathsep.join(map(str, (ROOT, MODEL_CODE, ROOT / "workshop", ROOT / "workshop/benchmarks")))


def child_environment(*dropped: str, **settings: str) -> dict[str, str]:
    """This process's environment for a child that runs code of the tree, tests.support included.

    `dropped`: beginnings of names that the child does not get. `settings` are added at the end.
    """
    kept = {key: value for key, value in os.environ.items() if not key.startswith(dropped)}
    return {**kept, "PYTHONPATH": PYTHONPATH, **settings}


def run_module(environment: str, module: str | Path, *arguments: object, timeout: float = 900) -> str:
    """Run a module or a script file in an environment; its standard output. Fails with its last words."""
    python = python_of(environment)
    if not python.exists():
        pytest.fail(f"{python} is missing; make it with: scripts/setup_env.sh {environment}")
    done = subprocess.run(
        [str(python), *([module] if isinstance(module, Path) else ["-m", module]), *map(str, arguments)],
        env=child_environment(PYTHONUNBUFFERED="1"),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, f"{module} ended with {done.returncode}:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def children(pid: int, words: bytes = b"docparser.worker") -> list[int]:
    """Children with `words` in their command line: by default the workers of a service."""
    found: list[int] = []
    # A thread or a child may end between the listing and the reading.
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found += map(int, (task / "children").read_text().split())
    return [child for child in found if words in command_line(child)]


def command_line(pid: int) -> bytes:
    """The words of a process, each ended by a zero byte; none of one that is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def gone(pid: int) -> bool:
    """Whether a process has ended, also when nobody has asked for its status yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


class Process:
    """A process in a session of its own, so that a kill reaches its children too. `log` gets its output."""

    def __init__(self, command: list[str], log: Path, env: dict[str, str]) -> None:
        self.log = log
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                command, env=env, cwd=log.parent, stdout=file, stderr=file, start_new_session=True
            )

    def kill(self) -> None:
        """SIGKILL for the process and its children."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def end(self) -> None:
        """SIGTERM; fails when the process does not end by itself, and kills it."""
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
