# SPDX-License-Identifier: Apache-2.0
"""The order of a first run in local mode: the VLM loads while the parser's environment is made."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bundle.demo import prepare
from bundle.environments.environment import Environment
from bundle.local_mode.settings import LocalSettings
from tool_errors import UsageError


class Recorded:
    """What was done, in order. `there` are the environments that need no work, `weights` whether any are found."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, there: set[str], weights: bool = True) -> None:
        self.steps: list[str] = []
        self._there, self._weights = there, weights
        monkeypatch.setattr(prepare, "is_ready", lambda environment: environment.name in there)
        monkeypatch.setattr(prepare, "set_up", self._set_up)
        monkeypatch.setattr(prepare.system, "ensure", self._ensure)
        monkeypatch.setattr(prepare, "choose_weights", self._choose)
        monkeypatch.setattr(prepare.inputs, "decode", self._decode)

    def start(self, *programs: str) -> None:
        self.steps.append(f"start {' '.join(programs)}")

    def run(self, **said: str) -> list[str]:
        prepare.prepare_local(LocalSettings.of({**os.environ, **said}), [], self.start, install=False)
        return self.steps

    def _set_up(self, environment: Environment) -> None:
        if environment.name not in self._there:
            self.steps.append(f"make {environment.name}")

    def _ensure(self, environments: tuple[Environment, ...], *, install: bool) -> None:
        self.steps.append(f"system for {', '.join(environment.name for environment in environments)}")
        assert not install

    def _choose(self, settings: LocalSettings) -> dict[str, object]:
        self.steps.append("weights")
        if not self._weights:
            raise UsageError("MODELS_DIR has no weights")
        return {}

    def _decode(self, documents: list[Path]) -> dict[str, int]:
        self.steps.append("decode")
        return {}


def test_another_stack_has_an_environment_of_its_own(monkeypatch: pytest.MonkeyPatch):
    steps = Recorded(monkeypatch, there={"tools", "parser"}).run(STACK="0.23.0")
    assert steps[:2] == ["system for tools, vlm-0.23, parser", "make vlm-0.23"]


def test_a_first_run(monkeypatch: pytest.MonkeyPatch):
    steps = Recorded(monkeypatch, there=set()).run()
    assert steps == [
        "system for tools, vlm, parser",
        "make tools",
        "make vlm",
        "weights",
        "start vlm",
        "make parser",
        "decode",
    ]


def test_nothing_starts_before_a_document_is_known_to_be_good(monkeypatch: pytest.MonkeyPatch):
    assert Recorded(monkeypatch, there={"tools", "vlm", "parser"}).run()[1:] == ["weights", "decode"]


def test_without_weights_nothing_starts(monkeypatch: pytest.MonkeyPatch):
    recorded = Recorded(monkeypatch, there=set(), weights=False)
    with pytest.raises(UsageError, match="MODELS_DIR"):
        recorded.run()
    assert recorded.steps[-1] == "weights"
