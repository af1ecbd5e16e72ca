# SPDX-License-Identifier: Apache-2.0
"""Whether the dies in this container are the kind that the image was built for: the most reported failure on A3."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping

from bundle import npu_smi


class DeviceError(Exception):
    """Image and device do not belong together; the message says what to do."""


def built_for(soc_version: str) -> str:
    """Generation that vllm-ascend was compiled for, from the full name of the chip (SOC_VERSION of the build)."""
    if soc_version.startswith("ascend910_93"):
        return "A3"
    if soc_version.startswith("ascend910b"):
        return "A2"
    return "310P" if soc_version.startswith("ascend310p") else soc_version


def check_device(env: Mapping[str, str]) -> None:
    """Compare SOC_VERSION, which the image carries, with what npu-smi sees. Raises DeviceError.

    Where npu-smi is not mounted or does not run, nothing can be said here, and vllm-ascend's own check follows.
    """
    if env.get("HARDWARE") != "ascend":
        return
    wanted = built_for(env.get("SOC_VERSION", ""))
    try:
        answer = subprocess.run(["npu-smi", "info"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"device check: npu-smi gives no answer ({error}); the device is checked by vllm-ascend alone", flush=True)
        return
    found = {die.generation for die in npu_smi.parse(answer.stdout).dies}
    if found and found != {wanted}:
        raise DeviceError(f"this image was built for {wanted} ({env.get('SOC_VERSION')}), but the dies here are "
                          f"{', '.join(sorted(found))}; build it with --build-arg SOC_VERSION and CANN_IMAGE of that kind")
