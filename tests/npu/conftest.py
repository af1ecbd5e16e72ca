# SPDX-License-Identifier: Apache-2.0
"""The real torch_npu on a simulated CANN, with CPU kernels behind the operators that we call."""

from __future__ import annotations

import importlib
import importlib.util
import os
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# torch would load every device back end it finds while it is imported, before the simulated CANN is there.
os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
# Small matrices on busy cores are slower by orders of magnitude with several threads.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest  # noqa: E402

from tests.support import simulated_cann  # noqa: E402


@pytest.fixture(scope="session")
def torch_npu(tmp_path_factory: pytest.TempPathFactory) -> types.ModuleType:
    """The wheel of this environment, imported without a device."""
    folder = tmp_path_factory.mktemp("cann")
    torch = importlib.util.find_spec("torch")
    assert torch and torch.origin
    packages = Path(torch.origin).parents[1]
    # Of vllm-ascend, where this environment has it, the extension that was compiled with it.
    assert simulated_cann.build_for([packages / "torch_npu", packages / "vllm_ascend"], folder) > 50
    simulated_cann.load(folder)
    import torch_npu

    assert torch_npu.npu.device_count() == 0
    # From 2.10 on, the shape function of fused attention asks for the chip, once, to warn of one that is not served.
    shapes: Any = importlib.import_module("torch_npu.op_plugin.meta._meta_registrations")
    shapes._npu_fusion_attention_warning_printed = True
    return torch_npu


@pytest.fixture(scope="session")
def cpu_kernels(torch_npu: types.ModuleType) -> None:
    """The operators we call, computed on the CPU by their documentation."""
    from tests.support import simulated_npu_kernels

    simulated_npu_kernels.register()


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


@pytest.fixture
def small_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passes of the tower's that a CPU attends to at once, of which rows are compared as of large ones."""
    from vlm_server.die_check import shapes

    sizes = {shapes.PAGE: (200,), shapes.CROPS: (60, 4, 130), shapes.MANY: shapes.PASSES[shapes.MANY][:8]}
    for name, lengths in sizes.items():
        monkeypatch.setitem(shapes.PASSES, name, lengths)
    monkeypatch.setattr(shapes, "SCORES", 1 << 14)
