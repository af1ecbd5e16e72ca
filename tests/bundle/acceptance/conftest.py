# SPDX-License-Identifier: Apache-2.0
"""A bundle that is well. The engine and the parser are simulated."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bundle.acceptance.simulated_bundle import KEY, TOKEN, DrawnPages, checked
from tests.support.simulated_docker import SimulatedDocker


@pytest.fixture
def parser() -> Iterator[DrawnPages]:
    found = DrawnPages()
    yield found
    found.close()


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parser: DrawnPages) -> SimulatedDocker:
    """A bundle of two replicas that is well. Answers have the form of docker 26.1, compose 2.26."""
    found = SimulatedDocker(tmp_path, monkeypatch)
    well = {"ID": "1f", "State": "running", "Health": "healthy", "Image": "x"}
    rows = [{"Service": name, **well} for name in ("vlm", "parser")]
    found.say("inspect", [{"RestartCount": 0, "State": {"ExitCode": 0}}])
    found.say("ps", "".join(json.dumps(row) + "\n" for row in rows))
    found.say("labels", {})
    replicas = [{"number": index, "port": 8100 + index, "die": index, "up": True, "detail": ""} for index in (0, 1)]
    found.say("replicas", {"configured": 2, "replicas": replicas, "missing": ""})
    found.say("disk", "Filesystem 1024-blocks Used Available Capacity Mounted\n/dev/x 104857600 0 52428800 50% /var\n")
    found.say("dies", "a warning\n" + checked([None]))
    found.say("crop", [{"replica": index, "text": "A sentence.", "seconds": 0.5, "error": ""} for index in (0, 1)])
    found.say("selftest", {"passed": True, "findings": [{"name": "replica 0, a.png", "passed": True, "words": ""}]})
    found.say("logs", f"vlm-1 | Authorization: Bearer {TOKEN}\n")
    found.say("version", "26.1.5\n")
    found.say("compose", "2.26.1\n")
    found.say("root", {"DockerRootDir": str(tmp_path)})
    for name, value in {"HARDWARE": "cpu", "PARSER_PORT": str(parser.port), "PARSER_API_KEY": KEY}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("MODELS_DIR", raising=False)
    return found
