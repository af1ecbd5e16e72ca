# SPDX-License-Identifier: Apache-2.0
"""Linear layers of vLLM outside of an engine."""

from __future__ import annotations

import os
from typing import Any
from unittest import mock

import pytest
import torch
from vllm.config import DeviceConfig, VllmConfig, set_current_vllm_config
from vllm.distributed import init_distributed_environment, initialize_model_parallel
from vllm.distributed.parallel_state import destroy_distributed_environment, destroy_model_parallel


@pytest.fixture(scope="module")
def one_rank(tmp_path_factory):
    """What vLLM's layers want to know when they are built."""
    rendezvous = tmp_path_factory.mktemp("rank") / "rendezvous"
    # A configuration writes OMP_NUM_THREADS and more into the environment, for the engine's processes.
    with (
        mock.patch.dict(os.environ),
        set_current_vllm_config(VllmConfig(device_config=DeviceConfig(device="cpu"))),
    ):
        init_distributed_environment(1, 0, f"file://{rendezvous}", 0, "gloo")
        initialize_model_parallel(1, 1)
        yield
        destroy_model_parallel()
        destroy_distributed_environment()


def linear_layer(kind: type, dtype: torch.dtype, inputs: int = 32, outputs: int = 48) -> Any:
    layer = kind(inputs, outputs, bias=True, params_dtype=dtype, return_bias=False)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        layer.weight.copy_(torch.randn(outputs, inputs, generator=generator))
        layer.bias.copy_(torch.randn(outputs, generator=generator))
    return layer
