# SPDX-License-Identifier: Apache-2.0
"""How much memory the real worker of vllm-ascend finds on a die that several replicas share, with our arguments.

Simulated: the die's memory, as `mem_get_info` tells it, and what a replica takes of it. Real: the worker's method, the
engine's configuration from our launcher, and vLLM's refusal of a cache without memory. Sizes in bytes.
"""

from __future__ import annotations

import importlib
import sys
import types
from dataclasses import dataclass, field
from typing import Any

import pytest

from npu_smi import KEPT
from tests.npu.vllm_ascend.conftest import stack_here
from tests.npu.vllm_ascend.test_serving_config import WORKERS
from vlm_server.die_memory import BESIDES

GB = 10**9
WEIGHTS, CONTEXT, ACTIVATIONS = int(1.9 * GB), int(0.4 * GB), 1 * GB
GROWN = int(BESIDES) - CONTEXT - ACTIVATIONS
# As `mem_get_info` counts a die of 64 GiB (vllm-ascend #4404).
DIE = (65536 << 20) - KEPT
TOKEN = 18 * 2 * 128 * 2 * 2


@dataclass
class Die:
    """A die of `total` bytes; `used` is what each replica holds, `torch` what the one that starts has through torch."""

    total: int
    used: dict[int, int] = field(default_factory=dict)
    torch: int = 0

    def info(self) -> tuple[int, int]:
        return self.total - sum(self.used.values()), self.total


@pytest.fixture
def start(platform, engine_config, monkeypatch: pytest.MonkeyPatch):
    """A function (die, replica, replicas a die, share) -> bytes that the worker finds for the cache."""
    # CANN's own Python module, which the worker imports for its sleep mode and does not call here.
    runtime: Any = types.ModuleType("acl.rt")
    runtime.memcpy = None
    for module_name, stand_in in (("acl", types.ModuleType("acl")), ("acl.rt", runtime)):
        monkeypatch.setitem(sys.modules, module_name, stand_in)
    module, _, name = WORKERS[stack_here()].rpartition(".")
    worker = importlib.import_module(module)
    kind: Any = getattr(worker, name)

    def run(die: Die, replica: int, replicas: int, share: float | None = None) -> int:
        config = engine_config(VLM_REPLICAS_PER_DIE=str(replicas))
        cache: Any = config.cache_config
        if share is not None:
            cache.gpu_memory_utilization = share

        def profile() -> None:
            die.used[replica] += ACTIVATIONS
            die.torch += ACTIVATIONS

        def stats() -> dict[str, int]:
            return {"allocated_bytes.all.peak": die.torch, "allocated_bytes.all.current": WEIGHTS}

        platform_class = worker.NPUPlatform
        monkeypatch.setattr(platform_class, "mem_get_info", classmethod(lambda cls: die.info()))
        monkeypatch.setattr(platform_class, "clear_npu_memory", classmethod(lambda cls: None))
        monkeypatch.setattr(platform_class, "empty_cache", classmethod(lambda cls: None))
        monkeypatch.setattr(worker.torch_npu.npu, "mem_get_info", lambda *_: die.info())
        monkeypatch.setattr(worker.torch_npu.npu, "memory_stats", lambda *_: stats())
        die.used[replica] = CONTEXT
        before = die.info()[0]
        die.used[replica] += WEIGHTS
        die.torch = WEIGHTS
        runner = types.SimpleNamespace(profile_run=profile)
        own = types.SimpleNamespace(init_npu_memory=before, model_runner=runner, cache_config=cache)
        found = kind.determine_available_memory(own)
        die.used[replica] += cache.num_gpu_blocks_override * cache.block_size * TOKEN
        return int(found)

    return run


@pytest.mark.parametrize("replicas", range(1, 9))
def test_every_replica_of_a_die_starts_and_starts_again(start, replicas: int):
    die = Die(DIE)
    for replica in range(replicas):
        assert start(die, replica, replicas) > 0, replica
    for replica in range(replicas):
        die.used[replica] += GROWN
    assert sum(die.used.values()) < die.total
    for replica in range(replicas):
        del die.used[replica]
        assert start(die, replica, replicas) > 0, f"{replica} once more, beside all others"
        die.used[replica] += GROWN


def test_a_divided_share_leaves_the_later_ones_without(start):
    """What was done before: the stand-in shows the failure that users report (vllm-ascend #5917)."""
    die = Die(DIE)
    assert [start(die, replica, 4, share=0.2) > 0 for replica in range(4)] == [True, True, False, False]
    from vllm.v1.core import kv_cache_utils

    with pytest.raises(ValueError, match="No available memory for the cache blocks"):
        nothing: Any = types.SimpleNamespace()
        kv_cache_utils.check_enough_kv_cache_memory(nothing, {"a": nothing}, 0)
