# SPDX-License-Identifier: Apache-2.0
"""The machine that the checks look at: files below a root, commands, memory, disk. Tests replace root and commands."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import atlas
import declared_settings
import isolation
import npu_smi
from bundle import ports
from bundle.compose.images import hardware
from bundle.paths import ROOT

KINDS = ("ascend", "cpu")
GIB = 2**30
# As config/compose/ascend.yaml and cpu.yaml have them.
MEMORY_LIMITS = {
    "ascend": {"VLM_MEM_LIMIT": "128g", "PARSER_MEM_LIMIT": "41g"},
    "cpu": {"VLM_MEM_LIMIT": "12g", "PARSER_MEM_LIMIT": "13g"},
}
# What to do where this user may not look.
AS_ROOT = "sudo scripts/preflight.sh, for root may"


@dataclass(frozen=True)
class Finding:
    """One result of a check. `level` is PASS, WARN or FAIL; `needed` and `remedy` are empty for PASS."""

    level: str
    check: str
    found: str
    needed: str = ""
    remedy: str = ""


def gibibytes(text: str) -> float | None:
    """A size as compose writes it (12g, 512m, 1073741824b) in GiB; None if it is none."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([bkmgt]?)b?", text.strip().lower())
    return float(match[1]) * 1024 ** ("bkmgt".index(match[2] or "b") - 3) if match else None


def passed(check: str, found: str) -> Finding:
    return Finding("PASS", check, found)


@dataclass
class Machine:
    """The machine under test; `values` are the settings (.env under the environment)."""

    values: Mapping[str, str] = field(default_factory=dict)
    root: Path = Path("/")

    @property
    def hardware(self) -> str:
        """HARDWARE, `ascend` if it is unset; KINDS holds those that are known."""
        return hardware(self.values)

    @property
    def stack(self) -> str:
        """STACK; host.check_settings says whether there is one."""
        return self.setting("STACK")

    @property
    def product(self) -> atlas.Product:
        """What ATLAS names. Raises UsageError; npu.check_dies says it."""
        return atlas.named(self.setting("ATLAS"))

    def setting(self, name: str) -> str:
        """A setting of .env, or its default; an empty one counts as unset, as compose counts it."""
        return declared_settings.unchecked(self.values, name)

    def path(self, absolute: str) -> Path:
        return self.root / absolute.lstrip("/")

    def exists(self, absolute: str) -> bool:
        """Raises PermissionError."""
        return exists(self.path(absolute))

    def read(self, absolute: str) -> str:
        """Return the text of a file, an empty text if there is none. Raises PermissionError."""
        try:
            return self.path(absolute).read_text(errors="replace")
        except PermissionError:
            raise
        except OSError:
            return ""

    def run(self, *command: str) -> str | None:
        """Return the output of a command, None if it is missing or fails."""
        try:
            # In the checkout: from elsewhere, `docker compose` would see another project or none.
            result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return result.stdout if result.returncode == 0 else None

    def npu_smi(self, *words: str) -> npu_smi.Answer:
        """Run npu-smi; its failures are findings, too."""
        return npu_smi.ask(*words)

    def architecture(self) -> str:
        return os.uname().machine

    def kernel(self) -> str:
        return os.uname().release

    def isolation_lacks(self) -> list[str]:
        """What the kernel has not of what the parser isolates decoders with; containers have the same kernel."""
        return isolation.lacking()

    def free_disk(self, path: Path) -> int:
        """Return the free bytes of the disk on which `path` is or will be."""
        return shutil.disk_usage(nearest(path)).free

    def same_disk(self, one: Path, other: Path) -> bool:
        """Tell whether both are or will be on one file system."""
        return nearest(one).stat().st_dev == nearest(other).stat().st_dev

    def memory(self) -> int:
        """Return the total memory in bytes, 0 if it is unknown."""
        match = re.search(r"^MemTotal:\s+(\d+) kB", self.read("/proc/meminfo"), re.MULTILINE)
        return int(match[1]) * 1024 if match else 0

    def memory_limit(self, name: str) -> float:
        """Of a container, in GiB: VLM_MEM_LIMIT or PARSER_MEM_LIMIT; 0 for what is no size."""
        return gibibytes(self.setting(name) or MEMORY_LIMITS[self.hardware][name]) or 0

    def port_trouble(self, host: str, port: int) -> OSError | None:
        """Return why nobody can listen on a port, None if one can."""
        return ports.trouble(host, port)


def nearest(path: Path) -> Path:
    """Return `path`, or the folder above it that is there. Raises PermissionError."""
    return next(parent for parent in (path, *path.parents) if exists(parent))


def exists(path: Path) -> bool:
    """Whether there is such a file. Raises PermissionError where this user may not look: Path.exists says of this that
    there is none, since Python 3.14."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def dotted(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))
