# SPDX-License-Identifier: Apache-2.0
"""This process is a 310P's: vllm-ascend chooses its code when it is imported, and the stand-ins are a 310P's."""

from __future__ import annotations

import os
import types

import pytest

# As the image has it; the check of a die reads it.
SOC = os.environ["SOC_VERSION"] = "ascend310p1"

from tests.npu.vllm_ascend.conftest import (  # noqa: E402, F401
    engine_config,
    groups,
    groups_without_a_device,
    layers,
    on_the_host,
    platform,
    weights,
)


@pytest.fixture(scope="session")
def chip() -> str:
    return "_310P"


@pytest.fixture(scope="session")
def cpu_kernels(torch_npu: types.ModuleType) -> None:
    from tests.support import simulated_inference_card

    simulated_inference_card.register()
    # The runner asks for its cache by this name.
    vars(torch_npu)["empty_with_format"] = simulated_inference_card.empty_with_format


@pytest.fixture
def language_kernels(cpu_kernels: None) -> None:
    """The same: one set of operators for the tower and the language model."""
