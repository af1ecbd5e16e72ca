# SPDX-License-Identifier: Apache-2.0
"""The node under acceptance, as the steps see it: settings, commands whose output is kept, what earlier steps found."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bundle import progress
from bundle.compose import dies, project, sharing
from bundle.compose.images import hardware
from tool_errors import ServiceError

# Of one output; the end of a longer one is kept.
MOST_CHARACTERS = 20 << 20
ENTRY_POINT = "/opt/paddleocr-vl/operations/container/entrypoint.sh"


@dataclass(frozen=True)
class Options:
    """What the caller chose: `minutes` of load, 0 for none, and how long the replicas may take to start."""

    minutes: float
    wait_s: float


@dataclass
class Node:
    """`outputs` and `commands` are those of the step that runs; `replicas`, `findings` and `dies` what steps found."""

    values: Mapping[str, str]
    options: Options
    parser_url: str
    outputs: dict[str, str] = field(default_factory=dict)
    commands: list[str] = field(default_factory=list)
    # Answers of scripts/preflight.sh, of vlm_server.die_check, and of the parser's readiness.
    findings: list[dict[str, Any]] = field(default_factory=list)
    dies: list[dict[str, Any]] = field(default_factory=list)
    weights: dict[str, Any] = field(default_factory=dict)
    replicas: int = 0

    @property
    def ascend(self) -> bool:
        return hardware(self.values) == "ascend"

    @property
    def demo(self) -> bool:
        """Whether both models that serve are the demo weights, whose texts are known."""
        return all((self.weights.get(kind) or {}).get("demo") for kind in ("vlm", "layout"))

    @property
    def container(self) -> str:
        """The container of commands that need the dies while no `vlm` runs."""
        return f"{project.name(self.values)}-acceptance"

    def command(self, name: str, *words: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        """Run a command in the checkout and keep its output as `name`, also of one that takes too long. Raises
        ServiceError where it cannot run, NoAnswer where it takes too long."""
        self.commands.append(shlex.join(words))
        try:
            done = project.call(*words, timeout=timeout)
        except project.NoAnswer as late:
            self.keep_both(name, late.stdout, f"{late.stderr}\n{late}\n")
            raise
        self.keep_both(
            name, done.stdout, done.stderr + (f"\nexit status {done.returncode}\n" if done.returncode else "")
        )
        return done

    def keep_both(self, name: str, stdout: str, stderr: str) -> None:
        self.keep(name, stdout)
        if stderr:
            self.keep(f"{name}.stderr", stderr)

    def in_vlm(self, name: str, *words: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        """Run a command with the VLM's environment: in its container, or in a new one where none holds the dies.

        A `vlm` that starts again and again is stopped for it; the step that starts the bundle starts it, too. Raises
        ServiceError where another container holds the dies.
        """
        if self.running("vlm"):
            return self.command(name, *project.COMPOSE, "exec", "-T", "vlm", ENTRY_POINT, *words, timeout=timeout)
        self.free_the_dies()
        try:
            where = ("run", "--rm", "--name", self.container, "--no-deps", "-T", "vlm")
            return self.command(name, *project.COMPOSE, *where, *words, timeout=timeout)
        except (ServiceError, KeyboardInterrupt):
            # The client was ended; its container goes on, and holds the dies of all further steps.
            project.docker("rm", "--force", self.container)
            raise

    def free_the_dies(self) -> None:
        """Stop a `vlm` that starts again and again. Raises ServiceError where another container holds dies: a second
        one on a die fails, and its check would say nothing about the die."""
        # Of a script that was killed: it has the name, and may hold dies.
        project.docker("rm", "--force", self.container)
        rows = project.containers()
        if rows.get("vlm", {}).get("State") == "restarting":
            self.command("stop.txt", *project.COMPOSE, "stop", "vlm", timeout=180)
        if not self.ascend:
            return
        if rows.get("vlm-next", {}).get("State") in ("running", "restarting"):
            raise ServiceError(
                "vlm-next holds dies, and vlm does not run; run docker compose --profile upgrade stop vlm-next, or "
                "docker compose up -d vlm, then this script again"
            )
        mine = set(dies.given(self.values))
        for name, numbers in sharing.holders(project.printed, project.name(self.values)).items():
            if mine & set(numbers):
                raise ServiceError(
                    f"the container {name} holds dies of this bundle; docker stop {name}, then run this script again"
                )

    def running(self, service: str) -> bool:
        return project.containers().get(service, {}).get("State") == "running"

    def keep(self, name: str, text: str) -> None:
        """Keep a raw output for the archive."""
        self.outputs[name] = text[-MOST_CHARACTERS:]


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    """What a command said last, for a reader of the report."""
    return progress.last_line(done.stderr, done.stdout, otherwise=f"exit status {done.returncode} and no message")[:300]
