# SPDX-License-Identifier: Apache-2.0
"""vllm-ascend as vLLM's platform: the released package, or a source tree that VLLM_ASCEND_SOURCE names."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def platform(torch_npu) -> Iterator[object]:
    """vLLM's platform: vllm-ascend's, found by its entry point, or from a source tree where only that is there."""
    with pytest.MonkeyPatch.context() as patches:
        if source := os.environ.get("VLLM_ASCEND_SOURCE"):
            if not (Path(source) / "vllm_ascend/platform.py").is_file():
                pytest.fail(f"VLLM_ASCEND_SOURCE is {source!r}; expected a folder with vllm_ascend/platform.py")
            patches.syspath_prepend(source)
            import vllm.platforms
            from vllm_ascend.platform import NPUPlatform

            vllm.platforms._current_platform = NPUPlatform()
        elif importlib.util.find_spec("vllm_ascend") is None:
            pytest.skip("vllm-ascend is not in this environment; name a folder with its code in VLLM_ASCEND_SOURCE")
        from vllm.platforms import current_platform

        yield current_platform
