# SPDX-License-Identifier: Apache-2.0
"""The threads that PyTorch computes with, under the thread pools that a replica gets on a CPU."""

from __future__ import annotations

import subprocess
import sys

import pytest

import thread_pools
from tests.support.processes import child_environment


@pytest.mark.unit
@pytest.mark.parametrize(("chosen", "cores", "threads"), [("1", 2, 1), ("2", 3, 2), ("64", 2, 2)])
def test_pytorch_computes_with_the_launchers_threads(chosen: str, cores: int, threads: int):
    env = child_environment("VLM_", *thread_pools.POOLS, HARDWARE="cpu", OMP_NUM_THREADS=chosen)
    env |= thread_pools.environment(env, cores)
    words = [sys.executable, "-c", "import torch; print(torch.get_num_threads())"]
    assert subprocess.run(words, env=env, capture_output=True, text=True, check=True).stdout.split() == [str(threads)]
