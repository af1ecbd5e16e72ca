# SPDX-License-Identifier: Apache-2.0
"""One container of a pod: the words that the engine runs it with, and the kubelet's probes."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

from tests.support.kubernetes import Facts

from .states import States
from .volumes import size

KNOWN = {
    *("name", "image", "command", "args", "env", "envFrom", "ports", "resources", "securityContext", "volumeMounts"),
    *("startupProbe", "readinessProbe", "livenessProbe", "lifecycle"),
}
PROBE_DEFAULTS = {"initialDelaySeconds": 0, "periodSeconds": 10, "timeoutSeconds": 1, "failureThreshold": 3}


def options(pod: Facts, container: Facts, variables: Mapping[str, str]) -> list[str]:
    """User, rights, limits and environment for `docker run`. Fields that are not known here fail."""
    assert container.keys() <= KNOWN, f"{container['name']}: {container.keys() - KNOWN} are not known here"
    own, shared = container["securityContext"], pod["securityContext"]
    assert own.keys() == {"allowPrivilegeEscalation", "readOnlyRootFilesystem", "capabilities"}, own
    assert own["capabilities"].keys() == {"drop"} and not own["allowPrivilegeEscalation"], own
    assert shared["runAsNonRoot"] and shared["runAsUser"] > 0, shared
    assert shared["seccompProfile"] == {"type": "RuntimeDefault"}, "the engine's default profile is used"
    found = ["--user", f"{shared['runAsUser']}:{shared['runAsGroup']}", "--security-opt", "no-new-privileges"]
    for group in (shared["fsGroup"], *shared.get("supplementalGroups", ())):
        found += ["--group-add", str(group)]
    for capability in own["capabilities"]["drop"]:
        found += ["--cap-drop", capability]
    if own["readOnlyRootFilesystem"]:
        found.append("--read-only")
    limits, requests = (container["resources"].get(key, {}) for key in ("limits", "requests"))
    assert {"memory"} <= limits.keys() <= {"memory", "cpu"}, f"{container['name']}: {limits}"
    # Without swap, and with shares of the cores as cgroups get them from a request.
    memory = str(size(limits["memory"]))
    found += ["--memory", memory, "--memory-swap", memory, "--cpu-shares", str(int(1024 * cores(requests["cpu"])))]
    if "cpu" in limits:
        found += ["--cpus", str(cores(limits["cpu"]))]
    for name, value in variables.items():
        found += ["--env", f"{name}={value}"]
    return found


def cores(text: str) -> float:
    """`200m` or `4`."""
    return int(text[:-1]) / 1000 if text.endswith("m") else float(text)


def program(container: Facts) -> tuple[list[str], list[str]]:
    """(words before the image, words after it): `command` replaces the image's entry point, `args` its words."""
    command, arguments = container.get("command", []), container.get("args", [])
    before = ["--entrypoint", command[0]] if command else []
    return before, [*command[1:], *arguments]


class Probe:
    """A probe's last result; `passed` is None before it is known."""

    def __init__(self, given: Facts, container: Facts, address: str) -> None:
        (kind,) = given.keys() & {"httpGet", "tcpSocket", "exec"}
        assert given.keys() <= {kind, *PROBE_DEFAULTS}, given
        self._given = PROBE_DEFAULTS | given
        ports = {port["name"]: port["containerPort"] for port in container.get("ports", ())}
        assert kind in ("httpGet", "tcpSocket"), f"{kind} is not known here"
        port = given[kind]["port"]
        self._peer = (address, ports.get(port, port))
        self._path = given[kind].get("path")
        self._due = time.monotonic() + self._given["initialDelaySeconds"]
        self._failures = 0
        self.passed: bool | None = None

    def run(self) -> None:
        """Ask, if it is time."""
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + self._given["periodSeconds"]
        if self._asked():
            self.passed, self._failures = True, 0
        else:
            self._failures += 1
            if self._failures >= self._given["failureThreshold"]:
                self.passed = False

    def _asked(self) -> bool:
        seconds = self._given["timeoutSeconds"]
        try:
            if self._path is None:
                socket.create_connection(self._peer, seconds).close()
                return True
            url = f"http://{self._peer[0]}:{self._peer[1]}{self._path}"
            request = urllib.request.Request(url, headers={"User-Agent": "kube-probe/1.32", "Accept": "*/*"})
            with urllib.request.urlopen(request, timeout=seconds) as answer:
                return 200 <= answer.status < 400
        except OSError:
            return False


class Container:
    """A running container; `run` starts it anew, as after its end."""

    def __init__(
        self, given: Facts, name: str, address: str, docker: Callable[..., Any], states: States, words: list[str]
    ) -> None:
        self.given, self.name = given, name
        self._address, self._docker, self._states, self._words = address, docker, states, words
        self.restarts = -1
        self.run()

    def run(self) -> None:
        self.restarts += 1
        self._docker("rm", "--force", self.name, check=False)
        self._docker("run", "--detach", "--name", self.name, *self._states.words, *self._words)
        self._states.forget()
        self._start, self._ready, self._live = (
            Probe(self.given[kind], self.given, self._address) if kind in self.given else None
            for kind in ("startupProbe", "readinessProbe", "livenessProbe")
        )

    @property
    def ready(self) -> bool:
        started = self._start is None or self._start.passed is True
        return started and (self._ready is None or self._ready.passed is True)

    def look(self) -> None:
        """The probes that are due; a container that failed its start-up or liveness probe is killed."""
        if self._start is not None and self._start.passed is not True:
            self._start.run()
            if self._start.passed is False:
                self.kill()
            return
        for probe in (self._ready, self._live):
            if probe is not None:
                probe.run()
        if self._live is not None and self._live.passed is False:
            self.kill()

    def ended(self) -> int | None:
        """Its exit status; None while it runs."""
        return self._states.ended(self.name)

    def signal(self, name: str) -> None:
        self._docker("kill", "--signal", name, self.name, check=False)

    def kill(self) -> None:
        self.signal("KILL")

    def before_end(self, seconds: float) -> None:
        """`lifecycle.preStop`, which may take what is left of the pod's time."""
        lifecycle = self.given.get("lifecycle", {})
        assert lifecycle.keys() <= {"preStop"}, lifecycle
        if lifecycle:
            words = lifecycle["preStop"]["exec"]["command"]
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._docker("exec", self.name, *words, check=False, timeout=seconds)

    def logs(self, lines: int = 60) -> str:
        return self._docker("logs", "--tail", str(lines), self.name, check=False).stdout
