# SPDX-License-Identifier: Apache-2.0
"""The machine itself: processor, operating system, memory, the parser's port."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .machine import Finding, Machine, passed

GIB = 2**30
# The node's own systems that the facts of this project come from; others may do.
KNOWN_SYSTEMS = ("openEuler", "Ubuntu", "Debian", "Kylin")


def check_architecture(machine: Machine) -> Iterator[Finding]:
    found = machine.architecture()
    if found in ("aarch64", "x86_64"):
        yield passed("processor", found)
    else:
        yield Finding("FAIL", "processor", found, "aarch64 or x86_64", "use another machine")


def check_system(machine: Machine) -> Iterator[Finding]:
    match = re.search(r'^PRETTY_NAME="?([^"\n]+)', machine.read("/etc/os-release"), re.MULTILINE)
    name = match[1] if match else "unknown"
    if any(known in name for known in KNOWN_SYSTEMS):
        yield passed("system", f"{name}, kernel {machine.kernel()}")
    else:
        yield Finding("WARN", "system", f"{name}, kernel {machine.kernel()}", "openEuler, Ubuntu, Debian or Kylin",
                      "nothing, if the other checks pass: the containers bring their own system")


def check_memory(machine: Machine) -> Iterator[Finding]:
    needed = 128 if machine.hardware == "ascend" else 12
    found = machine.memory() / GIB
    if found >= needed * 0.95:
        yield passed("memory", f"{found:.0f} GiB")
    else:
        yield Finding("WARN", "memory", f"{found:.0f} GiB", f"{needed} GiB for all replicas and the parser",
                      "set VLM_REPLICAS or NPU_IDS to fewer, and VLM_MEM_LIMIT and PARSER_MEM_LIMIT to fit")


def check_port(machine: Machine) -> Iterator[Finding]:
    host, text = machine.values.get("PARSER_BIND") or "127.0.0.1", machine.values.get("PARSER_PORT") or "8080"
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 65536):
        yield Finding("FAIL", "port", f"PARSER_PORT is {text!r}", "a number from 1 to 65535", "set PARSER_PORT in .env")
    elif machine.port_is_free(host, int(text)):
        yield passed("port", f"{text} on {host} is free")
    else:
        yield Finding("WARN", "port", f"{text} on {host} is taken", "a free port, or our own parser on it",
                      "docker compose ps shows whether it is ours; else set PARSER_PORT in .env")


CHECKS = (check_architecture, check_system, check_memory, check_port)
