# SPDX-License-Identifier: Apache-2.0
"""How much memory the real worker of vllm-ascend finds on a die that several replicas share, with our arguments.

Simulated: the die's memory, as `mem_get_info` tells it, and what a replica takes of it. Real: the worker's method, the
engine's configuration from our launcher, and vLLM's refusal of a cache without memory. Sizes in bytes.
"""

from __future__ import annotations

import copy
import functools
import importlib
import sys
import types
from dataclasses import dataclass, field
from typing import Any

import pytest

from npu_smi import KEPT
from tests.npu.vllm_ascend.conftest import NEW, WORKER
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


def start_worker(worker: Any, kind: Any, own: Any, die: Die, config: Any, patches: pytest.MonkeyPatch) -> None:
    """The worker's own start, which looks for its share of the die; the device and its processes are left out."""
    npu, accelerator = worker.torch.npu, worker.torch.accelerator
    for name in ("set_device", "empty_cache"):
        patches.setattr(npu, name, lambda *_: None)
    for name, answer in {
        "memory_reserved": lambda *_: die.torch,
        "memory_stats": worker.torch_npu.npu.memory_stats,
    }.items():
        patches.setattr(accelerator, name, answer)
    for name in ("empty_cache", "reset_peak_memory_stats"):
        patches.setattr(accelerator, name, lambda *_: None)
    patches.setattr(worker, "set_random_seed", lambda *_: None)
    # A second each, of which each start has several.
    patches.setattr("gc.collect", lambda *_: 0)
    patches.setattr(type(worker.current_platform), "current_device", classmethod(lambda cls: "cpu"), raising=False)
    die.torch = 0
    own.local_rank, own.device, own.vllm_config = 0, None, config
    own.parallel_config, own.model_config = config.parallel_config, config.model_config
    own._init_worker_distributed_environment = lambda: None
    kind._init_device(own)


@pytest.fixture
def start(platform, engine_config, monkeypatch: pytest.MonkeyPatch):
    """A function (die, replica, replicas a die, share) -> bytes that the worker finds for the cache."""
    # CANN's own Python module, which the worker imports for its sleep mode and does not call here.
    runtime: Any = types.ModuleType("acl.rt")
    runtime.memcpy = None
    for module_name, stand_in in (("acl", types.ModuleType("acl")), ("acl.rt", runtime)):
        monkeypatch.setitem(sys.modules, module_name, stand_in)
    module, _, name = WORKER.rpartition(".")
    worker = importlib.import_module(module)
    kind: Any = getattr(worker, name)
    # Most of a start's time; each start has a copy, which it may change.
    config_for = functools.cache(lambda replicas: engine_config(VLM_REPLICAS_PER_DIE=str(replicas)))

    def run(die: Die, replica: int, replicas: int, share: float | None = None) -> int:
        config = copy.deepcopy(config_for(replicas))
        cache: Any = config.cache_config
        if share is not None:
            cache.gpu_memory_utilization = share

        def profile() -> None:
            die.used[replica] += ACTIVATIONS
            die.torch += ACTIVATIONS

        def stats(*_: Any) -> dict[str, int]:
            return {"allocated_bytes.all.peak": die.torch, "allocated_bytes.all.current": WEIGHTS}

        platform_class = type(platform)
        for name, answer in {"mem_get_info": die.info, "clear_npu_memory": None, "empty_cache": None}.items():
            told = classmethod(lambda cls, *_, answer=answer: answer and answer())
            monkeypatch.setattr(platform_class, name, told, raising=False)
        monkeypatch.setattr(worker.torch_npu.npu, "mem_get_info", lambda *_: die.info())
        monkeypatch.setattr(worker.torch_npu.npu, "memory_stats", stats)
        die.used[replica] = CONTEXT
        own = types.SimpleNamespace(init_npu_memory=die.info()[0], cache_config=cache)
        if NEW:
            start_worker(worker, kind, own, die, config, monkeypatch)
        die.used[replica] += WEIGHTS
        die.torch = WEIGHTS
        own.model_runner = types.SimpleNamespace(profile_run=profile, model_memory_usage=WEIGHTS)
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


def test_the_share_that_the_stack_does_not_want_leaves_the_later_ones_without(start):
    """The stand-in shows the failure that users report of a divided share (vllm-ascend #5917), and that of a whole one
    where each worker looks for its share when it starts."""
    die = Die(DIE)
    if NEW:
        with pytest.raises(ValueError, match="is less than desired GPU memory utilization"):
            for replica in range(4):
                assert start(die, replica, 4, share=0.8) > 0
        assert 1 < len(die.used) <= 4
        return
    assert [start(die, replica, 4, share=0.2) > 0 for replica in range(4)] == [True, True, False, False]
    from vllm.v1.core import kv_cache_utils

    with pytest.raises(ValueError, match="No available memory for the cache blocks"):
        nothing: Any = types.SimpleNamespace()
        kv_cache_utils.check_enough_kv_cache_memory(nothing, {"a": nothing}, 0)
