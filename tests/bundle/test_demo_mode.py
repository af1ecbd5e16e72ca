# SPDX-License-Identifier: Apache-2.0
"""What scripts/run_demo.sh chooses with `--mode auto`, with a simulated engine and simulated local services."""

from __future__ import annotations

from pathlib import Path

import pytest

from bundle.compose import containers as containers_module
from bundle.demo import arguments, mode
from bundle.settings import LocalSettings
from tool_errors import ServiceError, UsageError


class SimulatedServices:
    def __init__(self, running: bool) -> None:
        self._running = running

    def running(self) -> bool:
        return self._running


class SimulatedContainers:
    """An engine as the words say: `engine`, `images`, `containers`, `broken` (a build fails)."""

    def __init__(self, *words: str) -> None:
        self._words, self.built = words, False

    def suits_this_machine(self) -> bool:
        return "engine" in self._words

    def has_images(self) -> bool:
        return "images" in self._words

    def exist(self) -> bool:
        return "containers" in self._words

    def build(self) -> None:
        self.built = True
        if "broken" in self._words:
            raise ServiceError("docker compose build failed")


def choose(words: list[str], containers: SimulatedContainers, *, running: bool = False) -> str:
    return mode.choose(arguments.parse(words), SimulatedServices(running), containers)


@pytest.fixture
def no_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mode, "is_ready", lambda environment: False)


@pytest.mark.parametrize(
    ("state", "running", "expected"),
    [
        ((), False, "local"),
        (("engine", "images"), False, "docker"),
        (("engine", "images"), True, "local"),
        (("engine",), False, "docker"),
        (("engine", "broken"), False, "local"),
    ],
)
def test_docker_where_an_engine_answers(no_environments, state: tuple[str, ...], running: bool, expected: str):
    containers = SimulatedContainers(*state)
    assert choose(["page.png"], containers, running=running) == expected
    assert containers.built == (state in (("engine",), ("engine", "broken")))


def test_environments_that_are_there_spare_a_build(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(mode, "is_ready", lambda environment: True)
    containers = SimulatedContainers("engine")
    assert choose(["page.png"], containers) == "local" and not containers.built


@pytest.mark.parametrize(
    ("state", "expected"), [(("engine", "images", "containers"), "docker"), (("engine", "images"), "local")]
)
def test_down_stops_what_is_there_and_builds_nothing(no_environments, state: tuple[str, ...], expected: str):
    containers = SimulatedContainers(*state)
    assert choose(["--down"], containers) == expected and not containers.built


def test_a_named_mode_is_not_questioned():
    assert choose(["page.png", "--mode", "docker"], SimulatedContainers(), running=True) == "docker"
    assert choose(["page.png", "--mode", "local"], SimulatedContainers("engine", "images")) == "local"


@pytest.mark.parametrize(
    ("hardware", "device", "expected"), [("ascend", False, False), ("ascend", True, True), ("cpu", False, True)]
)
def test_hardware_that_is_not_there_is_not_tried(
    monkeypatch: pytest.MonkeyPatch, hardware: str, device: bool, expected: bool
):
    monkeypatch.setattr(containers_module, "VALUES", {"HARDWARE": hardware})
    monkeypatch.setattr(containers_module, "has_device", lambda: device)
    monkeypatch.setattr(containers_module, "engine_answers", lambda: True)
    assert containers_module.Containers(LocalSettings.load({})).suits_this_machine() is expected


@pytest.mark.parametrize("down", [True, False])
def test_without_docker_the_error_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, down: bool):
    monkeypatch.setenv("PATH", str(tmp_path))
    containers = containers_module.Containers(LocalSettings.load({}))
    with pytest.raises(UsageError, match="no container engine with Compose v2 answers"):
        containers.down() if down else containers.check()
    containers.undo()


def test_a_call_that_started_nothing_takes_nothing_down(monkeypatch: pytest.MonkeyPatch):
    """Someone's containers run, and the call was interrupted before it looked."""
    containers, called = containers_module.Containers(LocalSettings.load({})), []
    monkeypatch.setattr(containers, "_compose", lambda *words, **_: called.append(words))
    containers.undo()
    assert called == []
