# SPDX-License-Identifier: Apache-2.0
"""What every machine needs, with NPUs or without: settings that are known, processor, operating system, memory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import atlas
import declared_settings
import parser_memory
import stacks
from bundle.envfile import Cut
from bundle.preflight import npu
from bundle.preflight.machine import GIB, MEMORY_LIMITS, Finding, Machine, passed
from declared_settings import vlm_args
from tool_errors import UsageError

# Systems of nodes on which the bundle's requirements were seen; others may do as well.
KNOWN_SYSTEMS = ("openEuler", "Ubuntu", "Debian", "Kylin")
REMEDY = "fix it in .env or in the environment (docs/settings.md)"


def check_settings(machine: Machine) -> Iterator[Finding]:
    """Names in .env and the environment that nothing reads, and values that no service would take: what each container
    checks before it starts anything."""
    found = [
        Finding("FAIL", "settings", line, "a name of docs/settings.md", REMEDY)
        for line in declared_settings.unknown(machine.values)
    ]
    found += [
        Finding("FAIL", "settings", f"{error.name} is {error.value!r}", error.expected, REMEDY)
        for error in declared_settings.wrong(machine.values)
    ]
    found += [Finding("FAIL", "settings", said, expected, REMEDY) for said, expected in refused_together(machine)]
    found += [
        Finding(
            "WARN",
            "settings",
            f"{name}: what follows a $ in it is the name of no variable, and is left out",
            "single quotes around a value with $",
            f"{name}='...' in .env",
        )
        for name, value in machine.values.items()
        if isinstance(value, Cut)  # which may be a password
    ]
    yield from found or [passed("settings", "no unknown name and no wrong value")]


def refused_together(machine: Machine) -> Iterator[tuple[str, str]]:
    """Settings that only beside others are wrong, with what is expected: a container that refuses them is started again
    and again."""
    values, stack = machine.values, stacks.of(machine.stack)
    if values.get("PARSER_CALLBACK_HOSTS") and not (
        values.get("PARSER_CALLBACK_SECRETS") or values.get("PARSER_CALLBACK_SECRETS_FILE")
    ):
        yield (
            "PARSER_CALLBACK_HOSTS allows callbacks, and there is no secret to sign them",
            "PARSER_CALLBACK_SECRETS or PARSER_CALLBACK_SECRETS_FILE",
        )
    try:
        vlm_args.words(values, on_dies=machine.hardware == "ascend")
    except UsageError as error:
        yield str(error), "arguments of `vllm serve`, quoted as in a shell, none that the bundle decides itself"
    try:
        if machine.hardware == "ascend":
            yield from refused_on_dies(values, stack, machine.product)
            places = min(npu.dies_and_asked(machine))
        else:
            places = declared_settings.whole(values, "VLM_REPLICAS")
    except UsageError:
        return  # `check_settings` and `check_dies` say so
    lists = declared_settings.unchecked(values, "VLM_CORES").split(";")
    if lists[0] not in ("auto", "none") and len(lists) < places:
        yield (
            f"VLM_CORES has {len(lists)} of {places} lists",
            "`auto`, `none`, or one list of cores for each die (on CPU: for each of VLM_REPLICAS), like 0-39;40-79",
        )


def refused_on_dies(
    values: Mapping[str, str], stack: stacks.Stack, product: atlas.Product
) -> Iterator[tuple[str, str]]:
    """As `refused_together`, what only a die makes wrong."""
    mode = values.get("VLM_GRAPH_MODE") or "none"
    if (precision := declared_settings.text(values, "VLM_PRECISION")) != "auto":
        yield f"VLM_PRECISION is {precision}, and dies compute in {product.dtype}", "an empty VLM_PRECISION"
    if mode != "none" and values.get("VLM_ENFORCE_EAGER") == "1":
        yield f"VLM_GRAPH_MODE is {mode}, and VLM_ENFORCE_EAGER is 1", "one of them empty"
    if mode != "none" and not product.graphs:
        yield f"VLM_GRAPH_MODE is {mode}, and a {product.title} serves without graphs", "an empty VLM_GRAPH_MODE"
    elif mode in ("full", "full_decode_only") and not stack.whole_steps:
        yield (
            f"VLM_GRAPH_MODE is {mode}, and stack {stack.key} pads the steps of these graphs wrongly",
            f"an empty VLM_GRAPH_MODE, or STACK={stacks.NEWEST.key}",
        )


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
    workers = int(text) if text.isdecimal() else 0  # `check_settings` says what is wrong
    needed, own = -(-parser_memory.of_workers(workers) // GIB), machine.memory_limit("PARSER_MEM_LIMIT")
    if workers and 0 < own < needed:
        yield Finding(
            "WARN",
            "workers",
            f"PARSER_WORKERS is {workers}, PARSER_MEM_LIMIT {own:g}g",
            f"{needed} GiB for so many",
            f"PARSER_MEM_LIMIT={needed}g in .env, or leave PARSER_WORKERS empty",
        )


CHECKS = (check_settings, check_architecture, check_system, check_isolation, check_memory, check_workers)
