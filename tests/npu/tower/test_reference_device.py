# SPDX-License-Identifier: Apache-2.0
"""The tools in model_code/reference with the real torch_npu: without CANN, and without a device."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from reference.device import Device, available
from tests.support.processes import child_environment
from tool_errors import DeviceError


def test_without_cann_the_cure_is_named():
    """An operator who forgot to source set_env.sh sees this. It runs in a process without the simulated CANN."""
    code = "from reference.device import available; print(available('npu')[1])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=child_environment("LD_LIBRARY_PATH"),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "CANN is not in reach" in done.stdout and "ascend-toolkit/set_env.sh" in done.stdout


def test_without_a_device_it_is_said_so(torch_npu):
    with pytest.raises(DeviceError, match=r"--device npu:3: torch sees 0 npu devices .*npu-smi info"):
        Device("npu:3")
    device, reason = available("npu")
    assert device is None and "/dev/davinci_manager" in reason


def test_what_the_tools_call_exists(torch_npu):
    """Device uses these of torch.npu; a name that torch_npu lacks would be found on an NPU only."""
    npu = importlib.import_module("torch").npu
    names = (
        "device_count is_available get_device_name synchronize reset_peak_memory_stats max_memory_allocated "
        "empty_cache set_compile_mode"
    )
    assert [name for name in names.split() if not callable(getattr(npu, name, None))] == []
    assert isinstance(npu.conv.allow_hf32, bool) and isinstance(npu.matmul.allow_hf32, bool)
