# SPDX-License-Identifier: Apache-2.0
"""The machine itself: processor, operating system, memory."""

from __future__ import annotations

import re
from collections.abc import Iterator

import stacks
from bundle.preflight.machine import Finding, Machine, passed

GIB = 2**30
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


def gibibytes(text: str) -> float | None:
    """A size as compose writes it (12g, 512m, 1073741824b) in GiB; None if it is none."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([bkmgt]?)b?", text.strip().lower())
    return float(match[1]) * 1024 ** ("bkmgt".index(match[2] or "b") - 3) if match else None


def check_memory(machine: Machine) -> Iterator[Finding]:
    """Compare the machine's memory with what both containers may take."""
    limits = {
        "VLM_MEM_LIMIT": machine.setting("VLM_MEM_LIMIT", "128g" if machine.hardware == "ascend" else "12g"),
        "PARSER_MEM_LIMIT": machine.setting("PARSER_MEM_LIMIT", "12g"),
    }
    sizes = {name: gibibytes(text) for name, text in limits.items()}
    for name, size in sizes.items():
        if not size:
            yield Finding("FAIL", "memory", f"{name} is {limits[name]!r}", "a size like 12g", f"set {name} in .env")
            return
    needed, found = sum(size or 0 for size in sizes.values()), machine.memory() / GIB
    # On CPU, the limits are a ceiling; the published model and the parser together work in 12 GiB.
    least = needed if machine.hardware == "ascend" else min(needed, 12)
    if found >= least * 0.95:
        yield passed("memory", f"{found:.0f} GiB")
    else:
        yield Finding(
            "WARN",
            "memory",
            f"{found:.0f} GiB",
            f"{least:.0f} GiB for all replicas and the parser",
            "set VLM_REPLICAS or NPU_IDS to fewer, and VLM_MEM_LIMIT and PARSER_MEM_LIMIT to fit",
        )


CHECKS = (check_architecture, check_system, check_isolation, check_memory)
