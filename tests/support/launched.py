# SPDX-License-Identifier: Apache-2.0
"""The launcher as tests call it: its settings, the entries of models.yaml, what it finds in a folder."""

from __future__ import annotations

from pathlib import Path

from served_weights.vlm import VlmWeights, find_vlm
from tests.support.paths import ROOT
from vlm_server.serving import Serving
from vlm_server.settings import Settings

SERVING = Serving.load(ROOT / "config/models.yaml")


def settings(models: Path, **env: str) -> Settings:
    return Settings.from_environment({"MODELS_DIR": str(models), "HARDWARE": "cpu", **env})


def resolve(chosen: Settings) -> VlmWeights:
    return find_vlm(chosen.weights)


def value(command: list[str], flag: str) -> str:
    """The word behind the last occurrence of a flag."""
    return command[len(command) - 1 - command[::-1].index(flag) + 1]
