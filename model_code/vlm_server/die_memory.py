# SPDX-License-Identifier: Apache-2.0
"""Whether the replicas of a die find memory on it, before any of them is started."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from served_weights.vlm import VlmWeights
from tool_errors import UsageError

from .command import last_value
from .settings import Settings

GB = 1e9
# Bytes of a replica besides weights and cache: CANN's context 0.4 GB, a profiling step's activations 1.0, and 1.3 by
# which the allocator grows while it serves. Estimates from reports of vllm-ascend on 64 GB dies; none was measured.
BESIDES = 2.7 * GB


def cache_bytes(config: Path, blocks: int, block: int) -> int:
    """Bytes of the key-value cache: two vectors a token, layer and key head, of two bytes each; 0 where config.json
    does not say its sizes."""
    said = json.loads(config.read_text(encoding="utf-8"))
    said = {**said, **(said.get("text_config") or {})}
    try:
        width = said.get("head_dim") or said["hidden_size"] // said["num_attention_heads"]
        return int(blocks * block * said["num_hidden_layers"] * said["num_key_value_heads"] * width * 2 * 2)
    except (KeyError, TypeError):
        return 0


def check_die_memory(settings: Settings, command: Sequence[str], weights: VlmWeights, total: int | None) -> None:
    """Raise UsageError, with the arithmetic, where the last replica of a die would find no memory.

    `total` are the bytes of the die, None where npu-smi does not say them. vllm-ascend takes all that is used on the
    die for its own, so gpu-memory-utilization holds for all replicas together.
    """
    replicas = settings.replicas_per_die
    if replicas == 1 or total is None:
        return
    share = float(last_value(command, "--gpu-memory-utilization") or 0.9)
    blocks = int(last_value(command, "--num-gpu-blocks-override") or 0)
    cache = cache_bytes(weights.path / "config.json", blocks, int(last_value(command, "--block-size") or 128))
    own = sum(file.stat().st_size for file in weights.path.glob("*.safetensors")) + BESIDES
    if replicas * (own + cache) > share * total:
        most = max(1, int((share * total - replicas * cache) // own))
        raise UsageError(
            f"VLM_REPLICAS_PER_DIE is {replicas}: each takes {own / GB:.1f} GB and {cache / GB:.1f} GB of cache, "
            f"{replicas * (own + cache) / GB:.1f} GB together, but {share:g} of the die's {total / GB:.1f} GB are "
            f"{share * total / GB:.1f}; expected at most {most}"
        )
