# SPDX-License-Identifier: Apache-2.0
"""The real torch_npu on stand-ins for CANN (stubs.py), with CPU kernels behind the operators we call (kernels.py)."""

from __future__ import annotations

import importlib.util
import os
import sys
import types
from collections.abc import Iterator
from pathlib import Path

# torch would load every device back end it finds while it is imported, before the stand-ins are there.
os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "model_code")]

import pytest  # noqa: E402
import stubs  # noqa: E402


@pytest.fixture(scope="session")
def torch_npu(tmp_path_factory: pytest.TempPathFactory) -> types.ModuleType:
    """The wheel of this environment, imported without a device."""
    folder = tmp_path_factory.mktemp("cann")
    wheel = Path(importlib.util.find_spec("torch").origin).parents[1] / "torch_npu"
    assert stubs.build(wheel, folder) > 50
    stubs.load(folder)
    import torch
    import torch_npu

    assert torch.npu.device_count() == 0
    return torch_npu


@pytest.fixture(scope="session")
def cpu_kernels(torch_npu: types.ModuleType) -> None:
    """The operators we call, computed on the CPU by their documentation."""
    import kernels

    kernels.register()


@pytest.fixture
def one_rank(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """What vLLM's layers want to know when they are built, and the plain linear layers that an NPU runs."""
    from vllm.config import DeviceConfig, VllmConfig, set_current_vllm_config
    from vllm.distributed import init_distributed_environment, initialize_model_parallel
    from vllm.distributed.parallel_state import destroy_distributed_environment, destroy_model_parallel
    from vllm.platforms import current_platform

    monkeypatch.setattr(type(current_platform), "is_cpu", lambda self: False)
    with set_current_vllm_config(VllmConfig(device_config=DeviceConfig(device="cpu"))):
        init_distributed_environment(1, 0, f"file://{tmp_path / 'rendezvous'}", 0, "gloo")
        initialize_model_parallel(1, 1)
        yield
        destroy_model_parallel()
        destroy_distributed_environment()
