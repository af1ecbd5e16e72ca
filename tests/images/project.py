# SPDX-License-Identifier: Apache-2.0
"""One compose project of the tests: `docker` and scripts, states, processes seen from the host, a client."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.images.client import Client

ROOT = Path(__file__).resolve().parents[2]
READY_SECONDS = 900  # generous: two busy cores


@dataclass
class Project:
    """`env` reaches the engine and holds the settings; `name` keeps the project apart from others on this machine.
    `folder` has the compose files."""

    name: str
    env: dict[str, str]
    folder: Path = ROOT

    def run(
        self,
        *words: str | Path,
        settings: Mapping[str, str] | None = None,
        timeout: float = 1800,
        stderr: int = subprocess.PIPE,
    ) -> subprocess.CompletedProcess[str]:
        """Run any command in the folder, as an operator of this project; `settings` win. Its status is the caller's."""
        return subprocess.run(
            words,
            cwd=self.folder,
            env={**self.env, "COMPOSE_PROJECT_NAME": self.name, **(settings or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            timeout=timeout,
            check=False,
        )

    def docker(self, *words: str, check: bool = True, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        """Run `docker WORDS`, stderr beside stdout; fails with its output unless `check` is false."""
        result = self.run("docker", *words, timeout=timeout, stderr=subprocess.STDOUT)
        assert not check or result.returncode == 0, f"docker {' '.join(words)}: {result.stdout[-3000:]}"
        return result

    def printed(self, image: str, *command: str, options: Sequence[str] = (), timeout: float = 300) -> str:
        """What a command prints in a container of its own; fails if the command does. The image's entry point is not
        run. The output goes through a file, since an engine under load may lose the last output of a container that
        ends at once ("stream copy error: reading from a closed fifo" in its log)."""
        with tempfile.TemporaryDirectory() as folder:
            Path(folder).chmod(0o777)  # for the image's user
            own = ("--volume", f"{folder}:/printed", "--entrypoint", "sh")
            script = ("-c", 'exec "$@" >/printed/output', "sh")
            self.docker("run", "--rm", *options, *own, image, *script, *command, timeout=timeout)
            return (Path(folder) / "output").read_text()

    def compose(self, *words: str, check: bool = True, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        return self.docker("compose", *words, check=check, timeout=timeout)

    def config(self) -> dict[str, Any]:
        """What compose makes of its files and the settings."""
        return yaml.safe_load(self.compose("config").stdout)

    def states(self) -> dict[str, dict[str, Any]]:
        answer = self.compose("ps", "--all", "--format", "json", check=False).stdout
        rows = [json.loads(line) for line in answer.splitlines() if line.startswith("{")]
        return {row["Service"]: row for row in rows}

    def container(self, service: str) -> str:
        """Id of a service's container."""
        return self.compose("ps", "--all", "--quiet", service).stdout.strip()

    def inspect(self, service: str) -> dict[str, Any]:
        return json.loads(self.docker("inspect", self.container(service)).stdout)[0]

    def execute(self, service: str, *words: str, check: bool = True) -> str:
        """Output of a command inside a service's container."""
        return self.compose("exec", "-T", service, *words, check=check).stdout

    def processes(self, service: str) -> dict[int, str]:
        """Host process id -> command line of everything that runs in a service's container."""
        listed = self.docker("top", self.container(service), "-eo", "pid,args", check=False).stdout
        rows = (line.split(maxsplit=1) for line in listed.splitlines()[1:])
        return {int(row[0]): row[1] for row in rows if len(row) == 2 and row[0].isdigit()}

    def find(self, service: str, part: str) -> list[int]:
        """Processes whose command line holds `part`."""
        return sorted(pid for pid, command in self.processes(service).items() if part in command)

    def kill(self, service: str, part: str, signum: int = signal.SIGKILL) -> list[int]:
        """Signal the processes whose command line holds `part`; fails where there is none."""
        found = self.find(service, part)
        assert found, f"{service} runs no {part!r}: {self.processes(service)}"
        for pid in found:
            with contextlib.suppress(ProcessLookupError):  # it may end with one that was just killed
                os.kill(pid, signum)
        return found

    def serving(self) -> dict[str, Any]:
        """What the service `vlm` says of its replicas and its layout server, empty while it does not."""
        words = ("/opt/venv/supervisor/bin/python", "-m", "container.status")
        answer = self.compose("exec", "-T", "vlm", *words, check=False)
        return {} if answer.returncode else json.loads(answer.stdout)

    def replicas_up(self) -> int:
        """How many replicas of the service `vlm` answer."""
        return sum(replica["up"] for replica in self.serving().get("replicas", ()))

    def layout_up(self) -> bool:
        """Whether its layout server answers."""
        return bool((self.serving().get("layout") or {}).get("up"))

    def wait_healthy(self, service: str, seconds: float = READY_SECONDS) -> None:
        """Wait until the engine calls a service's container healthy."""
        self.wait_for(
            lambda: self.inspect(service)["State"].get("Health", {}).get("Status") == "healthy",
            seconds,
            f"{service} healthy",
        )

    @staticmethod
    def wait_for(condition, seconds: float, what: str) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"waited {seconds:.0f} s for: {what}"
            time.sleep(1)

    @property
    def client(self) -> Client:
        """A client of its parser, without a key."""
        return Client(f"http://127.0.0.1:{self.env['PARSER_PORT']}")

    def ready(self) -> bool:
        """Whether the parser says that it can parse."""
        try:
            return bool(self.client.call("/health/ready", timeout=10))
        except (OSError, http.client.HTTPException):  # nobody, or one who ends amid the answer
            return False

    def wait_ready(self, seconds: float = READY_SECONDS) -> None:
        self.wait_for(self.ready, seconds, "the parser is ready")
