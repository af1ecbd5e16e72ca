# SPDX-License-Identifier: Apache-2.0
"""What the checks look at: files below a root, commands, memory, disk. Tests put another root and other commands in."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Finding:
    """`level` is PASS, WARN or FAIL; `needed` and `remedy` are empty for PASS."""

    level: str
    check: str
    found: str
    needed: str = ""
    remedy: str = ""


def passed(check: str, found: str) -> Finding:
    return Finding("PASS", check, found)


@dataclass
class Machine:
    """The machine under test; `values` are the settings (.env under the environment)."""

    values: Mapping[str, str] = field(default_factory=dict)
    root: Path = Path("/")

    @property
    def hardware(self) -> str:
        return self.values.get("HARDWARE") or "ascend"

    def path(self, absolute: str) -> Path:
        return self.root / absolute.lstrip("/")

    def read(self, absolute: str) -> str:
        """Text of a file, empty where it cannot be read."""
        try:
            return self.path(absolute).read_text(errors="replace")
        except OSError:
            return ""

    def run(self, *command: str) -> str | None:
        """Output of a command, None where it is missing or fails."""
        try:
            result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return result.stdout if result.returncode == 0 else None

    def architecture(self) -> str:
        return os.uname().machine

    def kernel(self) -> str:
        return os.uname().release

    def free_disk(self, path: Path) -> int:
        """Free bytes where `path` is, or will be."""
        nearest = next(parent for parent in (path, *path.parents) if parent.exists())
        return shutil.disk_usage(nearest).free

    def memory(self) -> int:
        """Total memory in bytes, 0 where unknown."""
        match = re.search(r"^MemTotal:\s+(\d+) kB", self.read("/proc/meminfo"), re.MULTILINE)
        return int(match[1]) * 1024 if match else 0

    def port_is_free(self, host: str, port: int) -> bool:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                trial.bind((host, port))
            except OSError:
                return False
        return True


def version(text: str) -> tuple[int, ...]:
    """The first dotted number in a text as a tuple, empty where there is none."""
    match = re.search(r"(\d+(?:\.\d+)+)", text)
    return tuple(map(int, match[1].split("."))) if match else ()


def dotted(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))
