# SPDX-License-Identifier: Apache-2.0
"""The C library that an environment's wheels need, where that is newer than their names say."""

from __future__ import annotations

import os
import platform

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
