# SPDX-License-Identifier: Apache-2.0
"""The dies of an Ascend node: device files, npu-smi, who uses them, and the replicas on them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import atlas
import declared_settings
import npu_smi
from bundle.compose import project
from bundle.compose.dies import (
    FOLDER,
    PRESENT,
    PRESENT_NEXT,
    chosen,
    given,
    ids,
    leaving_out,
    parse_ids,
    unlisted,
    written_for,
)
from bundle.compose.sharing import SHARE, holders, shared
from bundle.preflight.machine import AS_ROOT, Finding, Machine, passed
from bundle.progress import plural
from tool_errors import UsageError

# Memory of a die in MB that driver and firmware hold while idle, with a margin; from reports of idle A3 nodes.
IDLE_MEMORY = 4096
GB, GIB = 10**9, 2**30
# What a replica takes of the node, as config/compose/ascend.yaml and compose.yaml count.
REPLICA_GB, REPLICA_THREADS = 6, 240


def check_dies(machine: Machine) -> Iterator[Finding]:
    try:
        product = machine.product.on(machine.stack)
    except UsageError as error:
        yield Finding(
            "FAIL",
            "ATLAS",
            str(error),
            "the kind of this node's dies, and a stack that serves it",
            "set ATLAS and STACK in .env",
        )
        return
    text = chosen(machine.values)
    fragment = FOLDER / f"{text}.yaml"
    try:
        wanted = given(machine.values)
    except UsageError as error:
        yield Finding("FAIL", "NPU_IDS", str(error), "dies of this node", "set NPU_IDS in .env")
        return
    if not fragment.is_file():
        yield Finding(
            "FAIL",
            "NPU_IDS",
            f"no compose fragment for {text}",
            f"config/compose/dies/{text}.yaml",
            f"scripts/select_npus.sh {text}",
        )
    if gone := lacking(machine, text, wanted):
        yield gone
    else:
        others = written_for(PRESENT_NEXT)
        both = sorted(set(wanted) & set(parse_ids(others))) if others else []
        if both:
            yield Finding(
                "WARN",
                "upgrade by halves",
                f"NPU_IDS={text} gives vlm die {ids(both)}, which scripts/upgrade.sh start gave to vlm-next",
                f"NPU_IDS={PRESENT} in .env, from start on",
                f"set NPU_IDS={PRESENT} and empty VLM_REPLICAS in .env before the next docker compose up; where there "
                f"is no vlm-next any more, rm config/compose/dies/{PRESENT_NEXT}.yaml",
            )
        said = "" if both or not others else f"; {others} are those of vlm-next, until scripts/upgrade.sh back"
        yield passed("devices", f"{plural(len(wanted), 'die')}, NPU_IDS={text}{said}")
    answer = machine.npu_smi("info")
    if answer.forbidden:  # `driver.check_group` says whether the container may
        yield Finding("WARN", "npu-smi", answer.text, "a list of dies", AS_ROOT)
        return
    if trouble := npu_smi.trouble(answer):
        yield Finding("FAIL", "npu-smi", trouble[0], "a list of dies", trouble[1])
        return
    report = npu_smi.listed(answer.text, machine.path("/dev"), machine.npu_smi)
    if lost := unlisted(wanted, report, machine.root):
        yield Finding(
            "FAIL",
            "dies",
            f"npu-smi info does not list die {ids(lost)}, whose device file is there",
            "every die of NPU_IDS in its table",
            f"look at dmesg on the node; {leaving_out(machine.values)}",
        )
    yield from check_report(machine, report, set(wanted), product)
    yield from part_of_cores(machine, report, product)
    yield from check_sharing(machine, wanted)


def lacking(machine: Machine, text: str, wanted: list[int]) -> Finding | None:
    """What to say of device files that are missing; None where all are there."""
    names = (*(f"davinci{number}" for number in wanted), *npu_smi.DRIVER_DEVICES)
    gone = [name for name in names if not machine.exists(f"/dev/{name}")]
    if not gone:
        return None
    found, needed = f"/dev/{gone[0]} is missing", f"the devices of NPU_IDS={text}"
    manager = "davinci_manager" not in gone
    if manager and any(re.fullmatch(r"davinci\d+", path.name) for path in machine.path("/dev").iterdir()):
        found += f" and {len(gone) - 1} more" if gone[1:] else ""
        return Finding("FAIL", "devices", found, needed, leaving_out(machine.values))
    return Finding(
        "FAIL",
        "devices",
        "the driver has found no die: there is no /dev/davinciN"
        if manager
        else "the driver is not loaded: /dev/davinci_manager is missing",
        needed,
        "reboot, if the driver was installed or updated since the last boot; otherwise dmesg says why it did not load; "
        "after an update of the kernel, install the driver again",
    )


def dies_and_asked(machine: Machine) -> tuple[int, int]:
    """How many dies NPU_IDS gives, and how many VLM_REPLICAS asks for. Raises UsageError."""
    dies = len(given(machine.values))
    asked = declared_settings.whole(machine.values, "VLM_REPLICAS") if machine.values.get("VLM_REPLICAS") else dies
    return dies, asked


def replicas(machine: Machine) -> int:
    """How many replicas the settings make; 0 where one of them is wrong, as `check_replicas` says."""
    try:
        return declared_settings.replicas(machine.values, min(dies_and_asked(machine)))
    except UsageError:
        return 0


def check_replicas(machine: Machine) -> Iterator[Finding]:
    """Compare the number of replicas with the dies, and what they take of the node with the container's limits."""
    try:
        dies, asked = dies_and_asked(machine)
        declared_settings.check(machine.values, "VLM_REPLICAS_PER_DIE")
        threads = declared_settings.whole(machine.values, "VLM_PIDS_LIMIT")
    except UsageError:
        return  # `check_dies` and host.check_settings say so
    # The container forgives it where dies are left out.
    of = written_for() if chosen(machine.values) == PRESENT else ""
    if asked > dies > 0 and not (of and len(parse_ids(of)) > dies):
        yield Finding(
            "FAIL",
            "replicas",
            f"VLM_REPLICAS is {asked}, and NPU_IDS gives {plural(dies, 'die')}",
            "at most the number of dies; VLM_REPLICAS_PER_DIE sets how many replicas share a die",
            "leave VLM_REPLICAS empty in .env",
        )
        return
    try:
        number = declared_settings.replicas(machine.values, min(asked, dies))
    except UsageError as error:
        found, _, needed = str(error).partition("; expected ")
        yield Finding("FAIL", "replicas", found, needed, "set a smaller VLM_REPLICAS_PER_DIE in .env, or fewer dies")
        return
    limit = machine.memory_limit("VLM_MEM_LIMIT")
    if number * REPLICA_GB > limit * GIB / GB or number * REPLICA_THREADS > threads:
        memory, pids = -(-number * REPLICA_GB * GB // GIB), number * REPLICA_THREADS
        yield Finding(
            "WARN",
            "replicas",
            f"{number} replicas, VLM_MEM_LIMIT {limit:g}g, VLM_PIDS_LIMIT {threads}",
            f"{memory} GiB of the node's memory and {pids} threads",
            f"VLM_MEM_LIMIT={memory}g and VLM_PIDS_LIMIT={2 * pids} in .env, or fewer replicas",
        )
    elif number:
        yield passed("replicas", f"{number}, within VLM_MEM_LIMIT and VLM_PIDS_LIMIT")


def check_layout_device(machine: Machine) -> Iterator[Finding]:
    """Compare the layout server's die with those of its container, which it counts from 0."""
    try:
        dies = len(given(machine.values))
        device = declared_settings.text(machine.values, "LAYOUT_DEVICE")
        asked = declared_settings.flag(machine.values, "LAYOUT_SERVER")
        product = machine.product
    except UsageError:
        return  # `check_dies` and host.check_settings say so
    try:
        if asked:
            product.check_layout(device)
    except UsageError as error:
        yield Finding("FAIL", "layout device", str(error), "a device that computes in float32", "set it in .env")
        return
    number = device.partition(":")[2]
    if asked and dies and number and int(number) >= dies:
        yield Finding(
            "FAIL",
            "layout device",
            f"LAYOUT_DEVICE is {device}, and NPU_IDS gives {plural(dies, 'die')}",
            f"npu, or a number from npu:0 to npu:{dies - 1}: the dies of NPU_IDS are counted from 0",
            "set LAYOUT_DEVICE in .env",
        )


def check_report(
    machine: Machine, report: npu_smi.Report, wanted: set[int], product: atlas.Product
) -> Iterator[Finding]:
    """Check what npu-smi says of the dies: their kind, their health, and whether they are free."""
    kinds = {die.generation for die in report.dies}
    if kinds != {product.title}:
        fitting = [
            f"ATLAS={other.key}{f' and STACK={other.stacks[-1]}' if other.stacks else ''}"
            for other in atlas.PRODUCTS
            if kinds == {other.title}
        ]
        yield Finding(
            "FAIL",
            "dies",
            f"{', '.join(sorted({die.name for die in report.dies}))} ({', '.join(sorted(kinds))})",
            f"{product.title}, as ATLAS says ({product.machines})",
            f"{fitting[0]} in .env, then docker compose build vlm or scripts/offline_bundle.sh load ARCHIVE"
            if fitting
            else "another node: vllm-ascend has no kernels for these",
        )
        return
    if report.unnumbered:
        yield Finding(
            "WARN",
            "dies",
            report.unnumbered,
            "numbers by which the dies of NPU_IDS can be judged",
            "compare npu-smi info -m with ls /dev/davinci*; leave a die whose NPU is not OK out of NPU_IDS",
        )
        return
    chosen_dies = [die for die in report.dies if die.number in wanted]
    sick = [die for die in chosen_dies if not die.usable]
    alarmed = [die for die in chosen_dies if die.raises_alarm]
    if sick:
        yield Finding(
            "FAIL",
            "dies",
            f"die {sick[0].number} has the Health {sick[0].health}",
            "Health OK",
            f"npu-smi info -t health -i {sick[0].npu}; {leaving_out(machine.values)}",
        )
    if alarmed:
        yield Finding(
            "WARN",
            "health of dies",
            ", ".join(f"die {die.number} {die.health}" for die in alarmed),
            "Health OK; a die at Warning or Alarm still computes",
            f"npu-smi info -t health -i {alarmed[0].npu} names the alarm; scripts/acceptance.sh judges each die alone",
        )
    used = sorted(report.busy & {(die.npu, die.chip) for die in chosen_dies})
    full = [die.number for die in chosen_dies if (die.memory_used or 0) > IDLE_MEMORY]
    if used or full:
        what = f"a process runs on NPU {used[0][0]} chip {used[0][1]}" if used else f"die {full[0]} holds memory"
        yield Finding(
            "WARN",
            "free dies",
            what,
            "dies that no other process uses",
            "npu-smi info shows the process; leave the die out of NPU_IDS, or ignore this if the process is the "
            "bundle's",
        )
    elif not sick:
        yield passed("dies", f"{len(chosen_dies)} of {len(report.dies)} {product.title} dies chosen, usable and free")


def part_of_cores(machine: Machine, report: npu_smi.Report, product: atlas.Product) -> Iterator[Finding]:
    """Where npu-smi names no cores near a die, a replica gets its part of a whole server's (`container.cores`). Nothing
    in a container tells that the machine has fewer dies, as a virtual one or one with single cards. More than half of a
    server is taken for one that lacks dies."""
    found = len(report.dies)
    if 2 * found > product.dies or machine.setting("VLM_CORES") != "auto":
        return
    if npu_smi.affinity(machine.npu_smi("info", "-t", "topo").text):
        return
    yield Finding(
        "WARN",
        "cores",
        f"{plural(found, 'die')} where a server has {product.dies}, and npu-smi info -t topo names no cores near them: "
        f"a replica gets {1 / product.dies:.0%} of this machine's",
        f"{1 / found:.0%} for each die",
        "VLM_CORES=none in .env: each replica may use all cores",
    )


def check_sharing(machine: Machine, wanted: list[int]) -> Iterator[Finding]:
    """Say whether two containers may hold the dies at once: what an upgrade by halves without a pause needs."""
    on = shared(wanted, machine.npu_smi, machine.path("/dev"))
    if on:
        yield passed(
            "sharing", "device-share is on: several containers can hold a die, also containers that are not yours"
        )
        return
    said = "device-share is off" if on is False else "npu-smi does not say whether device-share is on; it is off"
    yield passed(
        "sharing",
        f"{said} as shipped: a die belongs to one container, so an upgrade by halves needs `scripts/upgrade.sh start "
        f"--pause` (docs/run.md). Without a pause: {SHARE}",
    )


def check_holders(machine: Machine) -> Iterator[Finding]:
    """Name other containers that were given dies of ours: the driver lets one container open a die."""
    try:
        wanted = set(given(machine.values))
    except UsageError:
        return  # `check_dies` says so
    for name, numbers in holders(machine.run, project.name(machine.values)).items():
        if both := sorted(wanted & set(numbers)):
            yield Finding(
                "WARN",
                "other containers",
                f"the container {name} was given die {ids(both)}",
                "dies that no other container may open",
                f"docker stop {name}, or leave its dies out of NPU_IDS",
            )


CHECKS = (check_dies, check_replicas, check_layout_device, check_holders)
