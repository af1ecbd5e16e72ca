# SPDX-License-Identifier: Apache-2.0
"""Memory, descriptors, processes and disk of the bundle, seen from outside, and whether they are where they were."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from chaos.bundle_project import SERVICES, STEADY, Bundle

MIB = 2**20
PROC = Path("/proc")


@dataclass(frozen=True)
class Usage:
    """What one service holds: MiB of anonymous memory by role, open descriptors, processes by role, unreaped processes,
    and MiB in its folders in memory (/tmp and /run/paddleocr-vl). `disk_mib` is the size of the parser's state, else 0.
    """

    memory: Mapping[str, float]
    descriptors: int
    processes: Mapping[str, int]
    zombies: int
    scratch_mib: float
    disk_mib: float = 0.0

    @property
    def memory_mib(self) -> float:
        return sum(self.memory.values())

    def figures(self) -> dict[str, float]:
        return {
            "memory, MiB": round(self.memory_mib),
            "descriptors": self.descriptors,
            "processes": sum(self.processes.values()),
            "unreaped processes": self.zombies,
            "scratch in memory, MiB": round(self.scratch_mib, 1),
            "disk, MiB": round(self.disk_mib, 1),
        }


@dataclass(frozen=True)
class Tolerance:
    """How much more may be held at the end: a share of the memory or so many MiB, whichever is larger; and the rest.
    `helpers` is by role, of processes that come and go with the work."""

    memory_share: float = 0.25
    memory_mib: float = 300.0
    descriptors: int = 64  # each renderer keeps up to four PDFs open, by two descriptors each
    helpers: int = 4
    scratch_mib: float = 32.0
    disk_mib: float = 16.0


def of_process(pid: int) -> tuple[float, int, bool]:
    """MiB of anonymous memory, number of descriptors, and whether it has ended and nobody asked for its status."""
    status = (PROC / str(pid) / "status").read_text()
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    memory = int(fields.get("RssAnon", "0 kB").split()[0]) / 1024
    zombie = fields["State"].split()[0] == "Z"
    return memory, 0 if zombie else len(os.listdir(PROC / str(pid) / "fd")), zombie


def size_mib(folder: Path) -> float:
    """Of all files below a folder; what vanishes meanwhile counts as nothing."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(place, name)).st_size
    return total / MIB


def usage(bundle: Bundle, service: str) -> Usage:
    memory: dict[str, float] = {}
    descriptors = zombies = 0
    roles = bundle.roles(service)
    for name, pids in roles.items():
        for pid in pids:
            with contextlib.suppress(OSError):
                held, opened, zombie = of_process(pid)
                memory[name] = memory.get(name, 0.0) + held
                descriptors, zombies = descriptors + opened, zombies + zombie
    scratch, first = 0.0, bundle.first_process(service)
    for folder in ("tmp", "run/paddleocr-vl"):
        with contextlib.suppress(OSError):
            found = os.statvfs(PROC / str(first) / "root" / folder)
            scratch += (found.f_blocks - found.f_bfree) * found.f_frsize / MIB
    disk = size_mib(bundle.state) if service == "parser" else 0.0
    counts = {name: len(pids) for name, pids in roles.items()}
    return Usage(memory, descriptors, counts, zombies, scratch, disk)


def measured(bundle: Bundle) -> dict[str, Usage]:
    return {service: usage(bundle, service) for service in SERVICES}


def _by_role(before: Usage, after: Usage) -> str:
    """The roles that hold more than before, the one that has grown most first."""
    more = {name: held - before.memory.get(name, 0.0) for name, held in after.memory.items()}
    names = sorted((name for name in more if more[name] >= 1), key=lambda name: -more[name])
    return ", ".join(f"{name} {before.memory.get(name, 0.0):.0f} -> {after.memory[name]:.0f}" for name in names)


def grown(before: Usage, after: Usage, allowed: Tolerance) -> list[str]:
    """What is not where it was, in words; empty where all is within the tolerance."""
    found = []
    room = max(before.memory_mib * allowed.memory_share, allowed.memory_mib)
    if after.memory_mib > before.memory_mib + room:
        words = f"memory {before.memory_mib:.0f} -> {after.memory_mib:.0f} MiB (+{room:.0f} allowed)"
        found.append(f"{words}: {_by_role(before, after)}")
    if after.descriptors > before.descriptors + allowed.descriptors:
        found.append(f"descriptors {before.descriptors} -> {after.descriptors} (+{allowed.descriptors} allowed)")
    for name in sorted({*before.processes, *after.processes}):
        was, now = before.processes.get(name, 0), after.processes.get(name, 0)
        if (now != was) if name in STEADY else (now > was + allowed.helpers):
            found.append(f"processes of the role {name}: {was} -> {now}")
    if after.zombies > before.zombies:
        found.append(f"unreaped processes {before.zombies} -> {after.zombies}")
    if after.scratch_mib > before.scratch_mib + allowed.scratch_mib:
        found.append(f"/tmp and /run {before.scratch_mib:.1f} -> {after.scratch_mib:.1f} MiB")
    if after.disk_mib > before.disk_mib + allowed.disk_mib:
        found.append(f"disk {before.disk_mib:.1f} -> {after.disk_mib:.1f} MiB (+{allowed.disk_mib:.0f} allowed)")
    return found
