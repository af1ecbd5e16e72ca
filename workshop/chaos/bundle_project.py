# SPDX-License-Identifier: Apache-2.0
"""The bundle under test: a compose project of its own, from compose.yaml and an override that makes trouble possible.

The override puts a proxy between parser and VLM, the parser's state on a small file system of its own, and a library
that shifts the clock into the parser (clock_shift.c). Everything else is the bundle as it is deployed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bundle.paths import ROOT

NAME = "paddleocr-vl-chaos"
SERVICES = ("vlm", "parser")
PROXY = Path(__file__).with_name("vlm_proxy.py")
CLOCK = Path(__file__).with_name("clock_shift.c")
STATE = "/var/lib/paddleocr-vl"
PYTHON = "/opt/venv/parser/bin/python"
LISTENS = "import socket; socket.create_connection(('127.0.0.1', 8000), 3)"
# Command lines -> roles, so that a plan names the same process in every run.
ROLES = (
    ("supervisord", r"supervisord"),
    ("balancer", r"haproxy|container\.balancer"),
    ("metrics", r"container\.metrics"),
    ("watchdog", r"container\.watchdog"),
    ("guard", r"container\.guard"),
    ("engine", r"VLLM::|EngineCore"),
    ("api server", r"vllm serve|vlm_server|container\.replica"),
    ("worker", r"-m docparser\.worker"),
    ("parser", r"-m docparser( |$)"),
    ("probe", r"health_probe"),
)


STEADY = frozenset(name for name, _ in ROLES) - {"probe"}


class BundleError(Exception):
    """The bundle cannot be brought up, or the engine refuses; the message says what to do."""


def role(command: str) -> str:
    """The role of a process by its command line. The parser's helpers, which come and go with the work, are named by
    their module (docparser.documents.renderer), others that have no role by their program."""
    if helper := re.search(r"-m (docparser\.(?!worker\.main)[\w.]+)", command):
        return helper.group(1)
    for name, pattern in ROLES:
        if re.search(pattern, command):
            return name
    return "other " + re.sub(r"[^A-Za-z.]+", "-", " ".join(command.split()[:3]))[-40:]


@dataclass
class Bundle:
    """`env` reaches the engine and holds the settings. `folder` holds what the override mounts: proxy, clock, state."""

    folder: Path
    env: Mapping[str, str]
    clock: bool = True
    name: str = NAME

    @property
    def state(self) -> Path:
        """Where the parser's state lies on this machine."""
        return self.folder / "state"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.env['PARSER_PORT']}"

    def parser_image(self) -> str:
        words = ("compose", "--file", str(ROOT / "compose.yaml"), "config", "--format", "json")
        return str(json.loads(self.docker(*words))["services"]["parser"]["image"])

    def override(self) -> dict[str, Any]:
        """What is added to compose.yaml; JSON is YAML."""
        tools = str(self.folder / "tools")
        environment = {"VLM_URL": "http://proxy:8000/v1"}
        if self.clock:
            environment |= {"LD_PRELOAD": "/chaos/clock_shift.so", "CLOCK_SHIFT_FILE": "/chaos/clock_shift"}
        tools_mount = {"type": "bind", "source": tools, "target": "/chaos", "read_only": True}
        return {
            "services": {
                "parser": {
                    "environment": environment,
                    "volumes": [{"type": "bind", "source": str(self.state), "target": STATE}, tools_mount],
                },
                "proxy": {
                    # The image that has a Python of its own already.
                    "image": self.parser_image(),
                    "entrypoint": [PYTHON, "/chaos/vlm_proxy.py"],
                    "networks": ["internal"],
                    "volumes": [tools_mount],
                    "restart": "unless-stopped",
                    "healthcheck": {"test": ["CMD", PYTHON, "-c", LISTENS], "interval": "5s", "retries": 10},
                    "read_only": True,
                    "cap_drop": ["ALL"],
                    "stop_grace_period": "1s",
                },
            }
        }

    def prepare(self) -> None:
        """Write the files that the override mounts. Without a compiler the clock is left alone."""
        tools = self.folder / "tools"
        tools.mkdir()
        (tools / "vlm_proxy.py").write_text(PROXY.read_text())
        (tools / "clock_shift").write_bytes(bytes(8))
        self.treat("pass", 0)
        self.clock = self.clock and shutil.which("cc") is not None
        if self.clock:
            build = ["cc", "-shared", "-fPIC", "-O2", "-o", str(tools / "clock_shift.so"), str(CLOCK)]
            subprocess.run(build, check=True)
        for path in (self.folder, tools, *tools.iterdir()):
            path.chmod(0o755 if path.is_dir() else 0o644)
        (self.folder / "override.yaml").write_text(json.dumps(self.override()))

    def jump(self, seconds: int) -> None:
        """Set the parser's clock apart from the machine's, at once. The file is mapped, so it stays the same file."""
        with (self.folder / "tools" / "clock_shift").open("r+b") as file:
            file.write(seconds.to_bytes(8, sys.byteorder, signed=True))

    def treat(self, mode: str, share: float) -> None:
        """Tell the proxy what to do with this share of the requests; see vlm_proxy."""
        path = self.folder / "tools" / "treatment"
        new = path.with_name(".treatment")
        new.write_text(json.dumps({"mode": mode, "share": share}))
        new.chmod(0o644)
        new.replace(path)

    def docker(self, *words: str, check: bool = True, timeout: float = 300) -> str:
        """Output of `docker WORDS`, stderr beside stdout."""
        result = subprocess.run(
            ["docker", *words],
            cwd=ROOT,
            env={**self.env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
        )
        if check and result.returncode:
            raise BundleError(f"docker {' '.join(words)[:200]}: {result.stdout[-800:].strip()}")
        return result.stdout

    def compose(self, *words: str, check: bool = True, timeout: float = 300) -> str:
        files = ("--file", str(ROOT / "compose.yaml"), "--file", str(self.folder / "override.yaml"))
        return self.docker("compose", "--project-name", self.name, *files, *words, check=check, timeout=timeout)

    def container(self, service: str) -> str:
        """A container's id; it keeps it over restarts."""
        listed = self.docker(
            "ps",
            "--all",
            "--no-trunc",
            "--quiet",
            "--filter",
            f"label=com.docker.compose.project={self.name}",
            "--filter",
            f"label=com.docker.compose.service={service}",
        )
        if not listed.strip():
            raise BundleError(f"the project {self.name} has no container of {service}")
        return listed.split()[0]

    def processes(self, service: str) -> dict[int, str]:
        """Process id on this machine -> command line, of all that runs in a container."""
        listed = self.docker("top", self.container(service), "-eo", "pid,args", check=False)
        rows = (line.split(maxsplit=1) for line in listed.splitlines()[1:])
        return {int(row[0]): row[1] for row in rows if len(row) == 2 and row[0].isdigit()}

    def roles(self, service: str) -> dict[str, list[int]]:
        """Role -> its processes; the health checks, which the engine starts anew, are left out."""
        found: dict[str, list[int]] = {}
        for pid, command in self.processes(service).items():
            if (name := role(command)) != "probe":
                found.setdefault(name, []).append(pid)
        return {name: sorted(found[name]) for name in sorted(found)}

    def first_process(self, service: str) -> int:
        """Process id of a running container's init; 0 where it does not run."""
        return int(self.docker("inspect", "--format", "{{.State.Pid}}", self.container(service)).strip() or 0)

    def network(self) -> str:
        return f"{self.name}_internal"

    def up(self, seconds: int = 1800) -> None:
        """Bring it up and wait until all of it is healthy; first take down what an earlier run may have left."""
        self.down()
        self.compose("up", "--detach", "--no-build", "--wait", "--wait-timeout", str(seconds), timeout=seconds + 100)

    def down(self) -> None:
        self.compose("down", "--volumes", "--timeout", "30", check=False, timeout=300)


def environment(base: Mapping[str, str], models: Path, port: int) -> dict[str, str]:
    """The settings of the bundle under test: `base` (HARDWARE, STACK, where the engine is) and what is its own."""
    dropped = ("COMPOSE_FILE", "COMPOSE_PROJECT_NAME", "PARSER_API_KEYS", "PUBLIC_URL", "VLM_URL", "PARSER_BIND")
    kept = {name: value for name, value in base.items() if name not in dropped}
    own = {
        "MODELS_DIR": str(models),
        "PARSER_PORT": str(port),
        # The watchdog's own defaults would take as long as the whole trouble.
        "WATCHDOG_INTERVAL_S": kept.get("WATCHDOG_INTERVAL_S") or "5",
        "WATCHDOG_TIMEOUT_S": kept.get("WATCHDOG_TIMEOUT_S") or "15",
    }
    return {"HARDWARE": "cpu", **kept, **own}


def needs(bundle: Bundle) -> str:
    """What this machine lacks for a run, "" if nothing."""
    if os.geteuid() != 0:
        return "only root can stop processes in containers from outside, mount a file system and cut a network"
    images = json.loads(bundle.compose("config", "--format", "json"))["services"]
    missing = [
        name
        for name in {entry["image"] for entry in images.values()}
        if "Error" in bundle.docker("image", "inspect", "--format", "{{.Id}}", name, check=False)
    ]
    return f"build the images first (docker compose build): {', '.join(missing)}" if missing else ""


def wait_until(condition: Callable[[], object], seconds: float, pause_s: float = 0.5) -> bool:
    """Whether the condition came to hold within so many seconds."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(pause_s)
    return bool(condition())
