# SPDX-License-Identifier: Apache-2.0
"""The two services in containers: the same methods as bundle.local_mode.services, carried out by `docker compose`."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import declared_settings
from bundle import parser_client, readiness
from bundle.compose import project
from bundle.origin import origin
from bundle.paths import VALUES
from bundle.progress import Ticker, last_line, say, step
from health_probe import Probe
from tool_errors import ServiceError, UsageError

SERVICES = ("vlm", "parser")


def engine_answers() -> bool:
    """Tell whether a container engine with Compose v2 can be reached."""
    try:
        return not (project.docker("info").returncode or project.compose("version").returncode)
    except ServiceError:
        return False


def has_device() -> bool:
    """Tell whether this machine has an NPU's driver."""
    return Path("/dev/davinci_manager").exists()


def hardware_here(values: Mapping[str, str]) -> str:
    """Return HARDWARE as it is set, else what this machine has: `ascend` or `cpu`."""
    return values.get("HARDWARE") or ("ascend" if has_device() else "cpu")


class Containers:
    """VLM server and parser as the compose project of this checkout."""

    def __init__(self) -> None:
        self._own = {"HARDWARE": hardware_here(VALUES)}
        self._before: set[str] | None = None  # the services that ran when `start` was called
        self._restarts: dict[str, int] = {}  # those that the engine had counted when the wait began

    def _compose(self, *words: str, show: bool = False) -> subprocess.CompletedProcess[str]:
        """Run `docker compose WORDS`, which may take its time; its output is returned, or goes to our stderr."""
        return project.compose(*words, timeout=None, settings=self._own, show=show)

    def check(self) -> None:
        """Raise UsageError as `_check_engine` does, and for settings that compose refuses."""
        self._check_engine()
        answer = self._compose("config", "--quiet")
        if answer.returncode:
            raise UsageError(f"docker compose: {last_line(answer.stderr, answer.stdout)}")

    def has_images(self) -> bool:
        """Tell whether both images are there, built or loaded."""
        listed = self._compose("config", "--images")
        return listed.returncode == 0 and all(map(project.image_id, listed.stdout.split()))

    def suits_this_machine(self) -> bool:
        """Tell whether an engine answers and this machine has the hardware that HARDWARE names."""
        return (self._own["HARDWARE"] == "cpu" or has_device()) and engine_answers()

    def elsewhere(self) -> str:
        """Another folder in which these containers were made, "" where there is none. Its settings are not ours, and
        compose would replace them: it knows the project by its name."""
        found = (project.other_folders(project.printed, VALUES, service) for service in SERVICES)
        return next((folder for folders in found for folder in folders), "")

    def _check_engine(self) -> None:
        """Raise UsageError for an engine that cannot be reached, and for containers of another folder."""
        if not engine_answers():
            raise UsageError(
                "--mode docker: no container engine with Compose v2 answers here (docker info, docker compose "
                "version); start it, or use --mode local"
            )
        if folder := self.elsewhere():
            raise UsageError(
                f"--mode docker: the containers of this node were made in {folder}; run this script there, or use "
                "--mode local. If this folder is to take them over: docker compose up -d --wait (docs/run.md)"
            )

    def exist(self) -> bool:
        """Tell whether there are containers of this project, running or not."""
        return bool(project.containers(self._own))

    def build(self) -> None:
        """Build the images; raises ServiceError."""
        with step("building the images, which takes some minutes the first time"):
            self._own.update(origin().build_arguments())
            if self._compose("build", show=True).returncode:
                raise ServiceError("docker compose build failed; its last lines say why")

    def start(self) -> None:
        """Build images that are missing and start the containers; returns without waiting for readiness."""
        self._before = {name for name, row in project.containers(self._own).items() if row["State"] == "running"}
        if not self.has_images():
            self.build()
        if self._compose("up", "--no-start", "--no-build", *SERVICES, show=True).returncode:
            raise ServiceError("docker compose up failed; its last lines say why")
        # The engine starts them, because compose would wait for the VLM first: `wait_ready` shows what is awaited. With
        # --no-deps compose does not wait, but Compose 2.26 then replaces a parser that was started without it.
        made = project.containers(self._own)
        for service in SERVICES:
            answer = project.docker("start", made[service]["ID"], timeout=None)
            if answer.returncode:  # the first line says why, the last one which container
                cause = (answer.stderr.strip() or "no message").splitlines()[0]
                raise ServiceError(f"docker start: {service}: {cause}")

    def wait_ready(self) -> dict[str, object]:
        """Wait until the parser is ready, which it is when the VLM answers; returns what it says of the weights in use.

        Raises ServiceError when a container gives up or READY_TIMEOUT is over.
        """

        def look(ticker: Ticker, result: Probe) -> None:
            ticker.detail = result.detail[:100] if result.detail.startswith("HTTP") else ""
            self._check_alive(ticker.elapsed, result)

        url = f"{parser_client.address(VALUES)}/health/ready"
        return readiness.weights_in_use(readiness.wait(url, "the containers to be ready", look, every=1.0))

    def _check_alive(self, elapsed: float, result: Probe) -> None:
        """Raise ServiceError if a container has ended, or if they have taken longer than READY_TIMEOUT."""
        for service, row in project.containers(self._own).items():
            ended = row["State"] in ("restarting", "exited", "dead")
            # One that is started again runs a moment later, so its state alone does not tell.
            count = project.inspect(row["ID"])["RestartCount"]
            if ended or count > self._restarts.setdefault(service, count):
                logs = self._compose("logs", "--no-log-prefix", "--tail", str(readiness.LOG_LINES), service)
                how = f"status {row.get('ExitCode')}" if ended else "the engine started it again"
                cause = readiness.likely_cause(logs.stdout.splitlines())
                raise ServiceError(f"the container {service} ended while starting ({how}): {cause}")
        if readiness.is_broken(result):
            raise ServiceError(f"the parser cannot start: {readiness.said(result.detail)}; see docker compose logs")
        if elapsed > declared_settings.whole(VALUES, "READY_TIMEOUT"):
            raise ServiceError(
                f"the containers were not ready after {elapsed:.0f} s (READY_TIMEOUT): "
                f"{result.detail[:200] or 'no message'}; see docker compose logs"
            )

    def undo(self) -> None:
        """Stop what this call started."""
        if self._before is None:
            return
        started = [service for service in SERVICES if service not in self._before]
        if len(started) == len(SERVICES):
            self._compose("down")
        elif started:
            self._compose("rm", "--stop", "--force", *started)

    def down(self) -> bool:
        """Remove the containers, whoever started them; returns whether there were any. Volumes and images stay.

        Raises UsageError as `_check_engine` does.
        """
        self._check_engine()
        if not self.exist():
            return False
        with step("stopping the containers"):
            # A container of a profile that is not named stays, and on Ascend with it its dies.
            if self._compose("--profile", "upgrade", "down").returncode:
                raise ServiceError("docker compose down failed; run it by hand to see why")
        say("containers removed; images and volumes are kept")
        return True
