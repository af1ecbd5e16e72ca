# SPDX-License-Identifier: Apache-2.0
"""The machine's memory, and the limits of the containers: whether what runs in them fits."""

from __future__ import annotations

from collections.abc import Iterator

import parser_memory
from bundle.preflight import npu
from bundle.preflight.machine import GIB, MEMORY_LIMITS, Finding, Machine, passed


def check_memory(machine: Machine) -> Iterator[Finding]:
    """Compare the machine's memory with what both containers may take."""
    for name in MEMORY_LIMITS[machine.hardware]:
        if not machine.memory_limit(name):
            yield Finding(
                "FAIL", "memory", f"{name} is {machine.values[name]!r}", "a size like 12g", f"set {name} in .env"
            )
            return
    vlm, parser = machine.memory_limit("VLM_MEM_LIMIT"), machine.memory_limit("PARSER_MEM_LIMIT")
    found = machine.memory() / GIB
    if machine.hardware == "ascend":
        replicas = npu.replicas(machine) * npu.REPLICA_GB * npu.GB / GIB
        least = min(vlm, replicas or vlm) + parser
    else:
        # The limits are a ceiling; the published model and the parser together work in 12 GiB.
        least = min(vlm + parser, 12)
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


def check_workers(machine: Machine) -> Iterator[Finding]:
    """Compare PARSER_WORKERS with the parser's memory. Without it the parser starts as many as fit."""
    text = machine.values.get("PARSER_WORKERS", "")
    workers = int(text) if text.isdecimal() else 0  # settings.check_settings says what is wrong
    needed, own = -(-parser_memory.of_workers(workers) // GIB), machine.memory_limit("PARSER_MEM_LIMIT")
    if workers and 0 < own < needed:
        yield Finding(
            "WARN",
            "workers",
            f"PARSER_WORKERS is {workers}, PARSER_MEM_LIMIT {own:g}g",
            f"{needed} GiB for so many",
            f"PARSER_MEM_LIMIT={needed}g in .env, or leave PARSER_WORKERS empty",
        )


CHECKS = (check_memory, check_workers)
