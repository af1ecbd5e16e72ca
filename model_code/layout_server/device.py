# SPDX-License-Identifier: Apache-2.0
"""The device that the layout model runs on: the CPU, or a die of an Atlas node."""

from __future__ import annotations

import importlib
from typing import Any

import torch

from tool_errors import DeviceError


def open_device(name: str, memory_share: float) -> torch.device:
    """Raises DeviceError, which names the missing part."""
    torch.set_num_threads(1)  # on a CPU the server is for tests, beside a VLM that needs the cores
    kind, _, number = name.partition(":")
    if kind == "cpu":
        return torch.device("cpu")
    try:
        importlib.import_module("torch_npu")
    except (ImportError, OSError) as exc:
        raise DeviceError(
            f"LAYOUT_DEVICE is {name}, but torch_npu cannot be loaded ({exc}); use the Ascend image, or source CANN's "
            "set_env.sh"
        ) from exc
    npu: Any = torch.npu  # type: ignore[attr-defined]  # torch_npu puts it there
    count = npu.device_count()
    if int(number or 0) >= count:
        raise DeviceError(
            f"LAYOUT_DEVICE is {name}, but torch sees {count} dies; see npu-smi info, and that /dev/davinci* are there"
        )
    device = torch.device("npu", int(number or 0))
    npu.set_device(device)
    npu.set_per_process_memory_fraction(memory_share, device)
    # Use the kernels in CANN's packages. Otherwise each shape compiles for minutes at its first use.
    npu.set_compile_mode(jit_compile=False)
    # float32 throughout, so that boxes equal those of the CPU engines. By default convolutions round their inputs.
    npu.conv.allow_hf32 = False
    npu.matmul.allow_hf32 = False
    return device
