# SPDX-License-Identifier: Apache-2.0
"""dockerd with a data root, an exec root and a socket of its own; whoever starts it ends it by its process id."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .packages import EngineError, missing_programs, unpack

START_SECONDS = 120
STOP_SECONDS = 120
# Each folder of wheels that a build was given is kept, 2 GB each: the last one is enough.
WHEELS = {"filter": ["type=source.local"], "keepStorage": "2500MB", "all": True}
SETTINGS = {"builder": {"gc": {"enabled": True, "policy": [WHEELS]}}}


@dataclass
class Engine:
    """A reachable engine. `environment` makes the `docker` command talk to it; `process` is ours to end, or None."""

    environment: Mapping[str, str]
    process: subprocess.Popen[bytes] | None = None

    def stop(self) -> None:
        """End the engine if it was started here; its containers end with it."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def answers(env: Mapping[str, str]) -> bool:
    """Whether `docker` reaches an engine that knows Compose v2 and buildx."""
    if shutil.which("docker", path=env.get("PATH")) is None:
        return False
    return all(
        subprocess.run(command, env=dict(env), capture_output=True, check=False).returncode == 0
        for command in (["docker", "info"], ["docker", "compose", "version"], ["docker", "buildx", "version"])
    )


def existing() -> Engine | None:
    """The engine that this machine already has, if it answers."""
    return Engine(dict(os.environ)) if answers(os.environ) else None


def start(folder: Path) -> Engine:
    """Unpack an engine below `folder` and start it. Raises EngineError where that cannot be done."""
    if os.geteuid() != 0:
        raise EngineError("no container engine answers, and only root can start one")
    if missing := missing_programs():
        raise EngineError(f"no container engine answers; to start one: apt-get install {' '.join(missing)}")
    root = unpack(folder)
    plugins = root / "usr/libexec/docker/cli-plugins"
    config = folder / "client"
    config.mkdir(exist_ok=True)
    (config / "config.json").write_text(json.dumps({"cliPluginsExtraDirs": [str(plugins)]}))
    settings = folder / "daemon.json"
    settings.write_text(json.dumps(SETTINGS))
    socket = Path("/run") / f"engine-{os.getpid()}.sock"
    env = {
        **os.environ,
        "PATH": f"{root}/usr/bin:{root}/usr/sbin:{os.environ['PATH']}",
        "DOCKER_CONFIG": str(config),
        "DOCKER_HOST": f"unix://{socket}",
        "DOCKER_BUILDKIT": "1",
        # A sixth of the engine's processor time during builds was Go's search for garbage.
        "GOGC": "400",
    }
    command = [
        str(root / "usr/sbin/dockerd"),
        "--config-file",
        str(settings),
        "--host",
        env["DOCKER_HOST"],
        "--data-root",
        str(folder / "data"),
        # A short path: containerd's sockets below it are limited to 107 bytes.
        "--exec-root",
        f"/run/engine-{os.getpid()}",
        "--pidfile",
        str(folder / "dockerd.pid"),
        "--group",
        "root",
        "--storage-driver",
        "overlay2",
    ]
    with (folder / "dockerd.log").open("wb") as log:
        process = subprocess.Popen(
            command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    engine = Engine(env, process)
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        if answers(env):
            return engine
        time.sleep(0.5)
    engine.stop()
    last = (folder / "dockerd.log").read_text(errors="replace").strip().splitlines()[-3:]
    raise EngineError(f"dockerd did not start: {' / '.join(last)}")
