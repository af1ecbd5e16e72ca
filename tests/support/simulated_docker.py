# SPDX-License-Identifier: Apache-2.0
"""A program `docker` that answers what a test says, for commands that ask a running bundle; the real one is used in
`tests/images`."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

# The first pattern that fits the words of a call names the file with the answer; the file NAME.status holds the exit
# status, NAME.err what is said on stderr.
PATTERNS = {
    "ps": "*compose?ps*",
    "labels": "*image?inspect*",
    "replicas": "*container.status*",
    "disk": "*df?-Pk*",
    "dies": "*vlm_server.die_check*",
    "modes": "*vlm_server.mode_check*",
    "crop": "*selftest.read*",
    "selftest": "*python?-m?selftest*",
    "up": "*compose?up*",
    "logs": "*compose?logs*",
    "root": "info*json*",
    "version": "version*",
    "running": "ps?--quiet*",
    "inspect": "inspect*",
    "compose": "compose?version*",
}


class SimulatedDocker:
    """`say` sets an answer; `calls` are the words of every call so far."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder / "docker"
        (self._folder / "bin").mkdir(parents=True)
        cases = "".join(f"{pattern}) name={name} ;;\n" for name, pattern in PATTERNS.items())
        program = self._folder / "bin/docker"
        program.write_text(
            f'#!/bin/sh\ncd {self._folder}\nprintf "%s\\n" "$*" >> calls\nname=other\ncase "$*" in\n{cases}esac\n'
            '[ -f "$name" ] && cat "$name"\n[ -f "$name.err" ] && cat "$name.err" >&2\n'
            '[ -f "$name.status" ] && exit "$(cat "$name.status")"\nexit 0\n'
        )
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")

    def say(self, name: str, answer: object, status: int = 0, err: str = "") -> None:
        """Text as it is, other values as JSON."""
        assert name in PATTERNS
        text = answer if isinstance(answer, str) else json.dumps(answer)
        for suffix, content in (("", text), (".status", str(status)), (".err", err)):
            (self._folder / f"{name}{suffix}").write_text(content)

    @property
    def calls(self) -> list[str]:
        file = self._folder / "calls"
        return file.read_text().splitlines() if file.is_file() else []
