# SPDX-License-Identifier: Apache-2.0
"""The driver of an Ascend node: driver, firmware, the files that compose mounts, and who may use them."""

from __future__ import annotations

import contextlib
import re
import stat
from collections.abc import Iterator

import declared_settings
import npu_smi
import stacks
from bundle.compose.dies import given
from bundle.compose.project import version
from bundle.preflight.machine import Finding, Machine, dotted, passed
from tool_errors import UsageError

NPU_SMI = "/usr/local/bin/npu-smi"
ELSEWHERE = "/usr/local/sbin/npu-smi"  # where a public report mounts it from (PaddleX #4542)
MOUNTED = (
    "/usr/local/dcmi",
    NPU_SMI,
    "/usr/local/Ascend/driver/lib64",
    "/usr/local/Ascend/driver/version.info",
    "/etc/ascend_install.info",
)


def installed(machine: Machine, part: str) -> str:
    """Return `Version=` of the driver or the firmware, an empty text if it is not installed."""
    match = re.search(r"^Version\s*=\s*(\S+)", machine.read(f"/usr/local/Ascend/{part}/version.info"), re.MULTILINE)
    return match[1] if match else ""


def check_driver(machine: Machine) -> Iterator[Finding]:
    found, newest = installed(machine, "driver"), stacks.NEWEST
    stack = stacks.STACKS.get(machine.stack, stacks.DEFAULT)
    wanted = dotted(stack.driver)
    if not found:
        yield Finding(
            "FAIL",
            "driver",
            "/usr/local/Ascend/driver/version.info is missing",
            f"driver {wanted}",
            f"install Ascend HDK {wanted}: driver first, then firmware, then reboot",
        )
    elif version(found) < stack.driver:
        yield older_driver(machine, found, stack)
    elif stack != newest and version(found) >= newest.driver:
        yield passed("driver", f"{found}, new enough for STACK={newest.key} (docs/install.md#which-stack)")
    else:
        yield passed("driver", found)
    firmware = installed(machine, "firmware")
    yield (
        passed("firmware", firmware)
        if firmware
        else Finding(
            "WARN",
            "firmware",
            "/usr/local/Ascend/firmware/version.info is missing",
            "firmware of the driver's release",
            "install the firmware of the same Ascend HDK",
        )
    )
    missing = [path for path in MOUNTED if not machine.exists(path)]
    if missing == [NPU_SMI] and machine.exists(ELSEWHERE):
        yield Finding(
            "FAIL",
            "driver files",
            f"npu-smi is {ELSEWHERE}",
            f"{NPU_SMI}, which compose mounts",
            f"as root: ln -s {ELSEWHERE} {NPU_SMI}",
        )
    elif missing:
        yield Finding(
            "FAIL",
            "driver files",
            f"{missing[0]} is missing",
            "the driver's files that compose mounts",
            "install the driver with --full; compose mounts: " + ", ".join(MOUNTED),
        )
    yield from closed_files(machine)


def closed_files(machine: Machine) -> Iterator[Finding]:
    """A driver that was not installed for all lets its own group alone read what compose mounts; in the container,
    npu-smi would say that libraries are missing."""
    try:
        group = declared_settings.whole(machine.values, "ASCEND_GID")
    except UsageError:
        return  # host.check_settings says so
    for path in MOUNTED:
        if path == NPU_SMI or not machine.exists(path):  # `check_group` looks at npu-smi
            continue
        status = machine.path(path).stat()
        if not npu_smi.allows(status, group, 5 if stat.S_ISDIR(status.st_mode) else 4):
            yield Finding(
                "FAIL",
                "driver files",
                f"{path} has the group {status.st_gid} and the mode {stat.S_IMODE(status.st_mode):03o}: ASCEND_GID "
                f"{group} may not read it",
                "files that the container's user may read",
                f"install the driver with --full --install-for-all, or as root: chmod -R o+rX {path}",
            )
            return


def older_driver(machine: Machine, found: str, stack: stacks.Stack) -> Finding:
    """A driver older than the stack's. For the default stack reports name it, for the other one upstream does."""
    wanted = dotted(stack.driver)
    needed, remedy = f"{wanted} or newer for CANN {stack.cann}", f"update Ascend HDK to {wanted}"
    if stack == stacks.DEFAULT:
        return Finding("WARN", "driver", found, needed, f"{remedy} if containers do not find devices")
    with contextlib.suppress(UsageError):  # the default stack does not serve every product
        machine.product.on(stacks.DEFAULT.key)
        remedy += f", or set STACK={stacks.DEFAULT.key} in .env"
    return Finding("FAIL", "driver", found, f"{needed} (STACK={stack.key})", remedy)


def check_group(machine: Machine) -> Iterator[Finding]:
    """Check ASCEND_GID: the container's user, who is neither root nor the owner, opens the device files and runs
    npu-smi by this group. Files that are missing are said by `npu.check_dies` and `check_driver`."""
    try:
        wanted = given(machine.values)
        group = declared_settings.whole(machine.values, "ASCEND_GID")
    except UsageError:
        return  # `npu.check_dies` and host.check_settings say so
    devices = [f"/dev/{name}" for name in (*(f"davinci{number}" for number in wanted), *npu_smi.DRIVER_DEVICES)]
    devices = [device for device in devices if machine.exists(device)]
    for path in (*devices, NPU_SMI) if devices else ():
        if not machine.exists(path):
            continue
        status, needed = machine.path(path).stat(), 1 if path == NPU_SMI else 6
        if npu_smi.allows(status, group, needed):
            continue
        if path == NPU_SMI:
            remedy = f"as root: chmod o+x {path}, or chgrp {group} {path} and chmod g+x {path}"
        elif npu_smi.allows(status, status.st_gid, needed):
            remedy = f"set ASCEND_GID={status.st_gid} in .env"
        else:
            remedy = "wait: after a boot, the driver takes up to ten minutes to give the files to their group"
        yield Finding(
            "FAIL",
            "group",
            f"{path} has the group {status.st_gid} and the mode {stat.S_IMODE(status.st_mode):03o}, ASCEND_GID is "
            f"{group}",
            "the group that may open the device files and run npu-smi",
            remedy,
        )
        return
    if devices:
        yield passed("group", f"{group} may open the device files and run npu-smi")


CHECKS = (check_driver, check_group)
