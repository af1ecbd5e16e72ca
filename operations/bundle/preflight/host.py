# SPDX-License-Identifier: Apache-2.0
"""The machine itself: processor and operating system."""

from __future__ import annotations

import re
from collections.abc import Iterator

import stacks
from bundle.preflight.machine import Finding, Machine, passed

# Systems of nodes on which the bundle's requirements were seen; others may do as well.
KNOWN_SYSTEMS = ("openEuler", "Ubuntu", "Debian", "Kylin")


def check_architecture(machine: Machine) -> Iterator[Finding]:
    found, stack = machine.architecture(), machine.stack
    if found == "aarch64" and machine.hardware == "cpu" and stacks.of(stack).arm_glibc:
        yield Finding(
            "FAIL",
            "processor",
            f"{found} with STACK={stack} on CPU: its vLLM needs a newer C library than the image has",
            f"STACK={stacks.NEWEST.key}",
            f"set STACK={stacks.NEWEST.key} in .env",
        )
    elif found in ("aarch64", "x86_64"):
        yield passed("processor", found)
    else:
        yield Finding("FAIL", "processor", found, "aarch64 or x86_64", "use another machine")


def check_system(machine: Machine) -> Iterator[Finding]:
    match = re.search(r'^PRETTY_NAME="?([^"\n]+)', machine.read("/etc/os-release"), re.MULTILINE)
    name = match[1] if match else "unknown"
    if any(known in name for known in KNOWN_SYSTEMS):
        yield passed("system", f"{name}, kernel {machine.kernel()}")
    else:
        yield Finding(
            "WARN",
            "system",
            f"{name}, kernel {machine.kernel()}",
            "openEuler, Ubuntu, Debian or Kylin",
            "nothing, if the other checks pass: the containers bring their own system",
        )


def check_isolation(machine: Machine) -> Iterator[Finding]:
    if lacks := machine.isolation_lacks():
        yield Finding(
            "WARN",
            "isolation",
            f"the kernel has no {' and no '.join(lacks)}",
            "landlock (Linux 5.13 or newer) and seccomp",
            "nothing, or start a newer kernel, with landlock in lsm=; docs/secure.md says what is open without it",
        )
    else:
        yield passed("isolation", "decoders reach no files and no network")


CHECKS = (check_architecture, check_system, check_isolation)
