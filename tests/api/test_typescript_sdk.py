# SPDX-License-Identifier: Apache-2.0
"""The PaddleOCR SDK for TypeScript with its own code, which npm installs from its lock and Node.js runs.

What it asks of a host beside loopback is refused, and told."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.api.conftest import KEY, without_proxies
from tests.support.paths import ROOT
from tests.support.system_packages import needs

PAGE = ROOT / "tests/data/letter.png"
pytestmark = needs("nodejs", "npm")


@pytest.fixture
def ask(installed: Path, tmp_path: Path) -> Callable[[str, str], dict[str, Any]]:
    """Asks a parser for a page, its pictures and its lines of text."""

    def ask(url: str, key: str) -> dict[str, Any]:
        command = ["node", "ask.mjs", url, key, str(PAGE), str(tmp_path)]
        env = without_proxies()
        done = subprocess.run(command, cwd=installed, env=env, capture_output=True, text=True, timeout=300, check=False)
        assert not done.returncode, done.stderr
        return json.loads(done.stdout)

    return ask


def test_a_document_with_its_pictures(guarded_url: str, ask: Callable[[str, str], dict[str, Any]], tmp_path: Path):
    said = ask(guarded_url, KEY)
    (page,) = said["document"]["pages"]
    assert "page 1" in page["markdownText"]
    assert said["saved"] and all(Path(file).is_relative_to(tmp_path) for file in said["saved"]), said["saved"]
    assert "is not served here" in said["lines"]["message"], "lines of text are another pipeline's"
    assert said["tried"] == []


def test_what_a_wrong_key_shows(guarded_url: str, ask: Callable[[str, str], dict[str, Any]]):
    said = ask(guarded_url, "other")
    assert said["document"]["error"] == "AuthError" and "This key is not known here" in said["document"]["message"]
    assert said["tried"] == []
