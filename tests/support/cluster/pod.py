# SPDX-License-Identifier: Apache-2.0
"""A pod: init containers, then containers that share a network and volumes, watched by a thread as by the kubelet."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tests.support.engine import base_image
from tests.support.kubernetes import Facts, environment

from .container import Container, options, program
from .states import States
from .volumes import Volumes

KNOWN = {
    *("initContainers", "containers", "volumes"),
    *("serviceAccountName", "automountServiceAccountToken", "enableServiceLinks"),
    *("terminationGracePeriodSeconds", "securityContext", "topologySpreadConstraints", "restartPolicy"),
}
LOOK_EVERY_S = 0.5
INIT_S = 600


class Pod:
    """Started when it is made. `address` is its own; `ready`, `ended` and `status` change with time."""

    def __init__(
        self,
        name: str,
        template: Facts,
        objects: list[Facts],
        *,
        namespace: str,
        network: str,
        folder: Path,
        resolver: Path,
        docker: Callable[..., Any],
        states: States,
        claims: Mapping[str, Path],
        secrets: Mapping[str, Mapping[str, str]],
    ) -> None:
        spec = template["spec"]
        assert spec.keys() <= KNOWN, f"{name}: {spec.keys() - KNOWN} are not known here"
        assert spec["automountServiceAccountToken"] is False and spec["enableServiceLinks"] is False
        self.name, self.labels = name, template["metadata"]["labels"]
        self.grace: float = spec.get("terminationGracePeriodSeconds", 30)
        self._again = spec.get("restartPolicy", "Always")
        self._docker, self._lock = docker, threading.Lock()
        self._volumes = Volumes(spec, folder / name, name, docker, claims, secrets)
        self._holder = f"{name}-pod"
        # Holds the network and the volumes in memory, as the runtime's pause container does.
        holder = ("--network", network, "--hostname", name, "--read-only", "--cap-drop", "ALL", *self._volumes.keep())
        docker("run", "--detach", "--name", self._holder, *holder, base_image.NAME, "sleep", "infinity")
        found = json.loads(docker("inspect", self._holder).stdout)[0]
        self.address: str = found["NetworkSettings"]["Networks"][network]["IPAddress"]
        self.terminating = self.ended = False
        self.seconds_to_end = 0.0  # known when it has ended
        self.status: int | None = None  # of a pod that does not start again
        self.trouble: Exception | None = None  # of the threads below
        self.containers: dict[str, Container] = {}

        def words(given: Facts) -> list[str]:
            before, after = program(given)
            return [
                *("--network", f"container:{self._holder}", "--no-healthcheck", *self._volumes.words(given)),
                *("--volume", f"{resolver}:/etc/resolv.conf:ro"),
                *options(spec, given, environment(objects, given, namespace, secrets)),
                *(*before, given["image"], *after),
            ]

        try:
            for given in spec.get("initContainers", ()):
                docker("run", "--rm", *words(given), timeout=INIT_S)
            for given in spec["containers"]:
                own = f"{name}-{given['name']}"
                self.containers[given["name"]] = Container(given, own, self.address, docker, states, words(given))
        except BaseException:
            self.remove()
            raise
        self._begin(self._watch)

    @property
    def ready(self) -> bool:
        return not self.ended and all(container.ready for container in self.containers.values())

    def _begin(self, work: Callable[[], None]) -> threading.Thread:
        """A thread whose failure `trouble` tells."""

        def run() -> None:
            try:
                work()
            except Exception as error:
                self.trouble = error

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread

    def _watch(self) -> None:
        while not self.terminating and self.status is None:
            for container in self.containers.values():
                with self._lock:
                    if self.terminating:
                        return
                    status = container.ended()
                    if status is None:
                        container.look()
                    elif self._again == "Always" or (self._again == "OnFailure" and status):
                        container.run()
                    else:
                        self.status = status
            time.sleep(LOOK_EVERY_S)

    def terminate(self) -> None:
        """preStop of each container, then its signal, and after the grace period the end; returns at once."""
        with self._lock:
            self.terminating = True
        self._begin(self._end)

    def _end(self) -> None:
        began = time.monotonic()
        for end in [self._begin(partial(self._end_one, each, began)) for each in self.containers.values()]:
            end.join()
        self.seconds_to_end = time.monotonic() - began
        self.remove()

    def _end_one(self, container: Container, began: float) -> None:
        container.before_end(self.grace)
        container.signal("TERM")
        while container.ended() is None:
            if time.monotonic() - began > self.grace:
                container.kill()
            time.sleep(LOOK_EVERY_S)

    def remove(self) -> None:
        """Away with it, however it is."""
        with self._lock:  # or the watcher would start again what is removed
            self.terminating = True
        names = [container.name for container in self.containers.values()]
        self._docker("rm", "--force", *names, self._holder, check=False)
        self._volumes.remove()
        self.ended = True
