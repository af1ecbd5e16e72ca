# SPDX-License-Identifier: Apache-2.0
"""Check that this container may open its dies, that they answer, and that the image was built for their kind.

What is wrong with them shows here in one line; later it would be a trace of CANN in each of sixteen replicas.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import atlas
import npu_smi
from tool_errors import DeviceError


def check_device(env: Mapping[str, str], devices: Path = Path("/dev")) -> None:
    """Compare SOC_VERSION, which the image carries, with what npu-smi sees.

    Raises DeviceError with the cause where a die cannot be opened, npu-smi lists none, or it is of another kind, and
    UsageError for a SOC_VERSION that is none. Where npu-smi is not mounted, one line says that nothing was compared;
    vllm-ascend checks the device itself later. One that is mounted and may not be run is refused: who mounts it wants
    the check, the launcher reads the dies' memory by it, and a group or a mode on the node is all that is wrong.
    """
    if env.get("HARDWARE") != "ascend":
        return
    built = atlas.of_soc(env.get("SOC_VERSION", ""))
    if shut := npu_smi.closed(devices):
        path, group = shut
        own = ", ".join(map(str, sorted({os.getegid(), *os.getgroups()})))
        raise DeviceError(
            f"user {os.geteuid()} of the groups {own} may not open {path}, which belongs to group {group}; "
            f"set ASCEND_GID={group} in .env (in Kubernetes: supplementalGroups)"
        )
    answer = npu_smi.ask("info")
    if answer.missing:
        print(f"device check: {answer.text}; the dies are checked by vllm-ascend alone", flush=True)
        return
    if trouble := npu_smi.trouble(answer):
        cause, remedy = trouble
        raise DeviceError(f"{cause}; {remedy}")
    found = {die.generation for die in npu_smi.parse(answer.text).dies}
    if found != {built.title}:
        raise DeviceError(
            f"this image was built for {built.title} ({env.get('SOC_VERSION')}), but the dies here are "
            f"{', '.join(sorted(found))}; set ATLAS in .env to {' or '.join(atlas.KEYS)}, as the dies are, and "
            "docker compose build vlm"
        )
