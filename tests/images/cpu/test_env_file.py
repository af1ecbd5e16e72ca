# SPDX-License-Identifier: Apache-2.0
"""Texts of .env by chance: our scripts and Compose read each of them alike, or both refuse it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import env_texts

TEXTS = 300
KEPT = ("PATH", "DOCKER_HOST", "DOCKER_CONFIG")


@pytest.mark.parametrize("begin", range(0, TEXTS, 50))
def test_our_scripts_read_env_as_compose_does(engine, tmp_path: Path, begin: int):
    outer = {name: engine.environment[name] for name in KEPT if name in engine.environment}
    different = {}
    for seed in range(begin, begin + 50):
        text = env_texts.some(seed)
        ours, theirs = (
            env_texts.ours(text),
            env_texts.composes(["docker", "compose"], text, tmp_path, outer),
        )
        if ours != theirs:
            different[text] = {"ours": ours, "Compose's": theirs}
    assert different == {}
