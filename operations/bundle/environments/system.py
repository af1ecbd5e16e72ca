# SPDX-License-Identifier: Apache-2.0
"""What the environments need of the system: known before any is made, all at once, and installed where that is allowed.

`tests/types/test_linked_libraries.py` compares `LIBRARIES` with what the files of the environments are linked to.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass

from bundle.environments.environment import Environment
from bundle.environments.vllm_cpu import check_libc
from bundle.paths import RUN_DIR, shown
from bundle.progress import last_line, run_logged
from tool_errors import EnvironmentSetupError


@dataclass(frozen=True)
class Need:
    """Something of the system, with the package that brings it on Debian and Ubuntu, and on openEuler."""

    name: str
    apt: str
    dnf: str


PYTHON_VENV = Need("Python's module ensurepip", "python3.11-venv", "python3")
LIBRARIES = {
    # Every Linux that has a C++ program has these three.
    "libgcc_s.so.1": Need("libgcc_s.so.1", "libgcc-s1", "libgcc"),
    "libstdc++.so.6": Need("libstdc++.so.6", "libstdc++6", "libstdc++"),
    "libz.so.1": Need("libz.so.1", "zlib1g", "zlib"),
    # Threads of Paddle and torchaudio. Other wheels bring copies, under names that only they look for.
    "libgomp.so.1": Need("libgomp.so.1", "libgomp1", "libgomp"),
    # vLLM's kernels, which bind threads to cores with it.
    "libnuma.so.1": Need("libnuma.so.1", "libnuma1", "numactl-libs"),
}
EVERY = ("libgcc_s.so.1", "libstdc++.so.6", "libz.so.1")
MANAGERS = {
    "apt-get": "apt-get install -y --no-install-recommends",
    "dnf": "dnf install -y --setopt=install_weak_deps=False",
}


def check_python() -> None:
    """Raises EnvironmentSetupError where this is not the Python that the locks are made for."""
    if sys.version_info[:2] == (3, 11):
        return
    found = ".".join(map(str, sys.version_info[:3]))
    raise EnvironmentSetupError(
        f"this is Python {found}, and the environments need 3.11. On Debian 12: apt-get install python3.11 "
        "python3.11-venv. On openEuler 24.03: dnf install python3. On RHEL 9: dnf install python3.11. The archives of "
        "Debian 13, Ubuntu 24.04 and openEuler 22.03 have no 3.11: there run the services in containers "
        "(scripts/run_demo.sh --mode docker), or set PYTHON to the path of a 3.11 of your own"
    )


def is_loadable(library: str) -> bool:
    """Whether the loader finds a shared object."""
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def missing(environments: Iterable[Environment]) -> list[Need]:
    """What the environments need and the system lacks."""
    libraries = dict.fromkeys(library for environment in environments for library in (*EVERY, *environment.libraries))
    found = [LIBRARIES[library] for library in libraries if not is_loadable(library)]
    importlib.invalidate_caches()
    return found if importlib.util.find_spec("ensurepip") else [PYTHON_VENV, *found]


def ensure(environments: Iterable[Environment], *, install: bool = True) -> None:
    """See that the system has what these environments need; install it where this is root and `install` allows it.

    Raises EnvironmentSetupError, which names all that is missing and the command that brings it.
    """
    check_python()
    environments = tuple(environments)
    for environment in environments:
        check_libc(environment.name)
    if not (needs := missing(environments)):
        return
    what = ", ".join(need.name for need in needs)
    manager = next((name for name in MANAGERS if shutil.which(name)), None)
    if manager is None:
        raise EnvironmentSetupError(f"the system lacks {what}; install the packages that hold them")
    packages = sorted({need.apt if manager == "apt-get" else need.dnf for need in needs})
    command = f"{MANAGERS[manager]} {' '.join(packages)}"
    if os.geteuid() or not install:
        raise EnvironmentSetupError(f"the system lacks {what}; run as root: {command}")
    install_packages(command, f"the system lacks {what}: {command}")
    if still := missing(environments):
        raise EnvironmentSetupError(f"the system lacks {', '.join(need.name for need in still)} even after: {command}")


def install_packages(command: str, what: str) -> None:
    """Run a package manager's command; a second time with new lists, since a fresh system has none.

    Raises EnvironmentSetupError with its last line.
    """
    log = RUN_DIR / "logs" / "setup-system.log"
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    if not run_logged(command.split(), log, what, env):
        return
    if command.startswith("apt-get"):
        run_logged(["apt-get", "update"], log, "apt-get update", env)
        if not run_logged(command.split(), log, what, env):
            return
    last = last_line(log.read_text(errors="replace"), otherwise="no output")
    raise EnvironmentSetupError(f"{command} failed: {last} (log: {shown(log)})")
