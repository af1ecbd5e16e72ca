# SPDX-License-Identifier: Apache-2.0
"""Check that the image was built for the kind of dies in this container.

A mismatch is the failure on A3 that users report most often.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping

import npu_smi
from tool_errors import DeviceError


def check_device(env: Mapping[str, str]) -> None:
    """Compare SOC_VERSION, which the image carries, with what npu-smi sees. Raises DeviceError.

    Where npu-smi is not mounted or does not run, nothing is checked here; vllm-ascend checks the device itself later.
    """
    if env.get("HARDWARE") != "ascend":
        return
    wanted = npu_smi.built_for(env.get("SOC_VERSION", ""))
    try:
        answer = subprocess.run(["npu-smi", "info"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        print(
            f"device check: npu-smi gives no answer ({error}); the device is checked by vllm-ascend alone", flush=True
        )
        return
    found = {die.generation for die in npu_smi.parse(answer.stdout).dies}
    if found and found != {wanted}:
        raise DeviceError(
            f"this image was built for {wanted} ({env.get('SOC_VERSION')}), but the dies here are "
            f"{', '.join(sorted(found))}; build it with --build-arg SOC_VERSION and CANN_IMAGE of that kind"
        )
