# SPDX-License-Identifier: Apache-2.0
"""What scripts/run_demo.sh chooses with `--mode auto`, with a simulated engine and simulated local services."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from bundle.compose import containers as containers_module
from bundle.compose import project
from bundle.demo import mode
from bundle.demo.__main__ import arguments
from bundle.local_mode.services import Services
from bundle.local_mode.settings import LocalSettings
from health_probe import Probe
from tool_errors import ServiceError, UsageError


class SimulatedServices(Services):
    def __init__(self, running: bool) -> None:
        self._running = running

    def running(self) -> bool:
        return self._running


class SimulatedContainers(containers_module.Containers):
    """An engine as the words say: `engine`, `images`, `containers`, `elsewhere` (made in another folder), `broken` (a
    build fails)."""

    def __init__(self, *words: str) -> None:
        self._words, self.built = words, False

    def suits_this_machine(self) -> bool:
        return "engine" in self._words

    def has_images(self) -> bool:
        return "images" in self._words

    def exist(self) -> bool:
        return "containers" in self._words

    def elsewhere(self) -> str:
        return "/opt/first" if "elsewhere" in self._words else ""

    def build(self) -> None:
        self.built = True
        if "broken" in self._words:
            raise ServiceError("docker compose build failed")


def choose(words: list[str], containers: SimulatedContainers, *, running: bool = False) -> str:
    return mode.choose(arguments(words), LocalSettings.of({}), SimulatedServices(running), containers)


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
        (("engine", "elsewhere"), False, "local"),
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
    ("state", "expected"),
    [
        (("engine", "images", "containers"), "docker"),
        (("engine", "images", "containers", "elsewhere"), "local"),
        (("engine", "images"), "local"),
    ],
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
    assert containers_module.Containers().suits_this_machine() is expected


@pytest.mark.parametrize("down", [True, False])
def test_without_docker_the_error_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, down: bool):
    monkeypatch.setenv("PATH", str(tmp_path))
    containers = containers_module.Containers()
    with pytest.raises(UsageError, match="no container engine with Compose v2 answers"):
        containers.down() if down else containers.check()
    containers.undo()


def test_a_call_that_started_nothing_takes_nothing_down(monkeypatch: pytest.MonkeyPatch):
    """Someone's containers run, and the call was interrupted before it looked."""
    containers, called = containers_module.Containers(), []
    monkeypatch.setattr(containers, "_compose", lambda *words, **_: called.append(words))
    containers.undo()
    assert called == []


class SimulatedEngine:
    """What takes the place of project.call: an engine with these services running, and images or none."""

    def __init__(self, *running: str, images: bool = True, refuses: str = "") -> None:
        self.states, self.images, self.refuses = dict.fromkeys(running, "running"), images, refuses
        self.calls: list[str] = []
        self.restarts, self.log, self.folder = 0, "", str(project.ROOT)

    def __call__(
        self, *words: str, timeout: float | None, settings: Mapping[str, str] | None = None, show: bool = False
    ) -> subprocess.CompletedProcess[str]:
        command = words[2:] if words[1] == "compose" else words[1:]
        said, status, error = "", 0, ""
        if words[1] == "ps":
            said = f"{self.folder}\n" if f"label={project.SERVICE}=parser" in words else ""
        elif command[0] == "ps":
            rows = (
                {"Service": name, "ID": f"id-{name}", "State": state, "ExitCode": 4 * (state != "running")}
                for name, state in self.states.items()
            )
            said = "".join(json.dumps(row) + "\n" for row in rows)
        elif command[:2] == ("config", "--images"):
            said = "one\ntwo\n"
        elif command[:2] == ("image", "inspect"):
            said, status = ("sha256:1\n", 0) if self.images else ("", 1)
        elif command[0] == "inspect":
            said = json.dumps([{"RestartCount": self.restarts}])
        elif command[0] == "logs":
            said = self.log
        elif command[0] == "build":
            self.images = bool((settings or {}).get("BUNDLE_REVISION"))
        elif command[0] == "up":
            assert "--no-start" in command and "--no-deps" not in command
            self.states = {"vlm": "created", "parser": "created"} | self.states
        elif command[0] == "start" and self.refuses in command:
            status, error = 1, f"Error response from daemon: {TAKEN}\nfailed to start containers: {self.refuses}\n"
        elif command[0] == "start":
            self.states[command[1].removeprefix("id-")] = "running"
        if command[0] in ("build", "up", "start", "rm", "down"):
            assert timeout is None and show is (command[0] in ("build", "up")), "people see what takes long"
            assert command[0] == "start" or (settings and settings["HARDWARE"] == "cpu")
            self.calls.append(" ".join(word for word in command if not word.startswith("--")))
        return subprocess.CompletedProcess(words, status, said, error)


TAKEN = "driver failed programming external connectivity: port is already allocated"
STARTED = ["up vlm parser", "start id-vlm", "start id-parser"]


@pytest.mark.parametrize(
    ("running", "images", "started", "undone"),
    [
        ((), True, STARTED, ["down"]),
        ((), False, ["build", *STARTED], ["down"]),
        (("vlm",), True, STARTED, ["rm parser"]),
        (("vlm", "parser"), True, STARTED, []),
    ],
)
def test_undo_ends_what_the_call_started_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, running: tuple[str, ...], images: bool, started: list[str], undone: list[str]
):
    monkeypatch.setattr(containers_module, "VALUES", {"HARDWARE": "cpu"})
    engine = SimulatedEngine(*running, images=images)
    monkeypatch.setattr(project, "call", engine)
    containers = containers_module.Containers()
    containers.start()
    assert engine.calls == started and containers.has_images()
    assert engine.states == {"vlm": "running", "parser": "running"}
    containers.undo()
    assert engine.calls == started + undone


@pytest.mark.parametrize(("call", "answer"), [("check", None), ("down", True)])
def test_containers_of_another_folder_are_neither_replaced_nor_removed(
    monkeypatch: pytest.MonkeyPatch, call: str, answer: bool | None
):
    monkeypatch.setattr(containers_module, "VALUES", {"HARDWARE": "cpu"})
    engine = SimulatedEngine("vlm", "parser")
    monkeypatch.setattr(project, "call", engine)
    engine.folder = "/opt/first"
    with pytest.raises(UsageError, match=r"were made in /opt/first; run this script there, or use --mode local"):
        getattr(containers_module.Containers(), call)()
    engine.folder = str(project.ROOT)
    assert getattr(containers_module.Containers(), call)() is answer


def test_the_cause_is_told_where_a_container_does_not_start(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(containers_module, "VALUES", {"HARDWARE": "cpu"})
    engine = SimulatedEngine(refuses="id-parser")
    monkeypatch.setattr(project, "call", engine)
    with pytest.raises(ServiceError, match=f"docker start: parser: Error response from daemon: {TAKEN}"):
        containers_module.Containers().start()


@pytest.mark.parametrize(
    ("state", "restarts", "told"),
    [("restarting", 0, "status 4"), ("exited", 0, "status 4"), ("running", 1, "the engine started it again")],
)
def test_a_container_that_ends_ends_the_wait_with_its_cause(
    monkeypatch: pytest.MonkeyPatch, state: str, restarts: int, told: str
):
    """It may run again whenever one looks."""
    monkeypatch.setattr(containers_module, "VALUES", {"HARDWARE": "cpu"})
    monkeypatch.setattr(containers_module.readiness, "probe", lambda _: Probe(False, "refused"))
    engine = SimulatedEngine("vlm", "parser")
    monkeypatch.setattr(project, "call", engine)
    looks = 0

    def pause(_: float) -> None:
        nonlocal looks
        looks += 1
        assert looks < 5, "it waits on"
        if looks == 2:
            engine.states["vlm"], engine.restarts, engine.log = state, restarts, "OSError: no device\n"

    monkeypatch.setattr(containers_module.readiness.time, "sleep", pause)
    with pytest.raises(ServiceError, match=rf"the container vlm ended while starting \({told}\): OSError: no device"):
        containers_module.Containers().wait_ready()
    assert looks == 2
