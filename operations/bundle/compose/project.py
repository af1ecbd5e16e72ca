# SPDX-License-Identifier: Apache-2.0
"""Questions to the compose project of this checkout: its name, containers, images, commands inside."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bundle import envfile
from bundle.paths import ROOT
from bundle.progress import last_line
from tool_errors import ServiceError

SECONDS = 60
COMPOSE = ("docker", "compose")
# The oldest Compose that the tests ran (docs/decisions/0405).
OLDEST_COMPOSE = (2, 26)
# What starts the bundle at boot, where config/systemd is used.
UNIT = "/etc/systemd/system/paddleocr-vl.service"
# In our containers: the Python of the environment that has the modules of common/ and operations/container, and what
# the VLM's container says of its replicas.
PYTHON, REPLICAS = "/opt/venv/supervisor/bin/python", "/run/paddleocr-vl/replicas.json"
# Labels of Compose on each container.
PROJECT, FOLDER = "com.docker.compose.project", "com.docker.compose.project.working_dir"
SERVICE = "com.docker.compose.service"
# The mark of a container that `docker compose run` has made: it is of a service and not the service, also when it has
# ended and was not removed.
ONE_OFF = "com.docker.compose.oneoff=True"
# In the DriverStatus of `docker info`: containerd keeps the images, as in a new Docker 29, and not Docker itself.
CONTAINERD_STORE = ["driver-type", "io.containerd.snapshotter.v1"]


def name(values: Mapping[str, str]) -> str:
    """What Compose calls the project with these settings: compose.yaml has a name, and this variable wins over it."""
    return values.get("COMPOSE_PROJECT_NAME") or "paddleocr-vl"


def compose(
    *words: str, timeout: float | None = SECONDS, settings: Mapping[str, str] | None = None, show: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run `docker compose WORDS` with its output captured, or shown on stderr; `settings` win over .env and the
    environment.

    Raises ServiceError where docker cannot be run or does not answer in time. A status other than 0 is the caller's.
    """
    return call(*COMPOSE, *words, timeout=timeout, settings=settings, show=show)


def docker(
    *words: str, timeout: float | None = SECONDS, settings: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `docker WORDS`, as `compose` does."""
    return call("docker", *words, timeout=timeout, settings=settings)


class NoAnswer(ServiceError):
    """A command took too long and was ended; it has what the command had printed until then."""

    def __init__(self, message: str, stdout: str = "", stderr: str = "") -> None:
        super().__init__(message)
        self.stdout, self.stderr = stdout, stderr


def call(
    *words: str, timeout: float | None, settings: Mapping[str, str] | None = None, show: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run any command in the checkout, as `compose` does."""
    sink = sys.stderr if show else subprocess.PIPE
    try:
        return subprocess.run(
            words,
            cwd=ROOT,
            env={**os.environ, **(settings or {})},
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
        )
    except OSError as error:
        raise ServiceError(f"{words[0]} cannot be run ({error.strerror})") from error
    except subprocess.TimeoutExpired as error:
        # Bytes, also of a command whose output is text.
        printed = [(part or b"").decode(errors="replace") for part in (error.stdout, error.stderr)]
        raise NoAnswer(f"{' '.join(words[:4])} gave no answer within {timeout:.0f} s", *printed) from error


def printed(*words: str) -> str:
    """What any command prints, whatever its status. Raises ServiceError as `compose` does."""
    return call(*words, timeout=SECONDS).stdout


def version(text: str) -> tuple[int, ...]:
    """Return the first dotted number in a text as a tuple, () if there is none."""
    match = re.search(r"(\d+(?:\.\d+)+)", text)
    return tuple(map(int, match[1].split("."))) if match else ()


def compose_version() -> tuple[int, ...]:
    """That of this machine's Compose plugin; () where there is none."""
    answer = compose("version", "--short")
    return () if answer.returncode else version(answer.stdout)


def containers(settings: Mapping[str, str] | None = None) -> dict[str, dict[str, Any]]:
    """Service -> what `docker compose ps` says of its container (State, Health, Image, ID ...); {} without any.

    Raises ServiceError where the engine does not answer.
    """
    answer = compose("ps", "--all", "--format", "json", settings=settings)
    if answer.returncode:
        raise ServiceError(f"docker compose ps: {last_line(answer.stderr, answer.stdout)}")
    rows = [json.loads(line) for line in answer.stdout.splitlines() if line.startswith("{")]
    return {row["Service"]: row for row in rows if ONE_OFF not in (row.get("Labels") or "").split(",")}


def other_folders(run: Callable[..., str | None], values: Mapping[str, str], service: str = "") -> list[str]:
    """The folders of other bundles on this node: containers of this project were made there, and `docker compose up`
    here replaces them. `run` gives the output of a command, None where it fails. `service`: of all, those of this one.
    """
    words = ["--filter", f"label={PROJECT}={name(values)}", "--format", f'{{{{.Label "{FOLDER}"}}}}']
    words += ["--filter", f"label={SERVICE}={service}"] if service else []
    folders = set((run("docker", "ps", "--all", *words) or "").splitlines())
    return sorted(folder for folder in folders if folder.startswith("/") and Path(folder).resolve() != ROOT)


def inspect(name: str) -> dict[str, Any]:
    """What the engine knows of a container, by id or name. Raises ServiceError."""
    answer = docker("inspect", name)
    if answer.returncode:
        raise ServiceError(f"docker inspect {name}: {answer.stderr.strip()}")
    found: dict[str, Any] = json.loads(answer.stdout)[0]
    return found


def image_id(name: str) -> str:
    """The id of the image with this name; "" where there is none. Only this engine gives the image this id."""
    answer = docker("image", "inspect", "--format", "{{.Id}}", name)
    return "" if answer.returncode else answer.stdout.strip()


def boot_folder(values: Mapping[str, str], unit: Path = Path(UNIT)) -> Path | None:
    """The folder in which this project is started at boot; None where no unit does it. Raises UsageError for a broken
    .env there."""
    try:
        found = re.search(r"^WorkingDirectory=(.+)$", unit.read_text(errors="replace"), re.MULTILINE)
    except OSError:
        return None
    folder = Path(found[1].strip()).resolve() if found else None
    return folder if folder and name(envfile.read(folder / ".env", {})) == name(values) else None


def labels(image: str) -> dict[str, str]:
    """The labels of an image, {} if it is not there."""
    answer = docker("image", "inspect", "--format", "{{json .Config.Labels}}", image)
    return (json.loads(answer.stdout) or {}) if answer.returncode == 0 else {}
