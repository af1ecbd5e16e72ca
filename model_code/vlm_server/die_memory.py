# SPDX-License-Identifier: Apache-2.0
"""How much key-value cache each replica of a die gets, and whether there is room for it, before any is started."""

from __future__ import annotations

import json
import math
import re
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
UNITS = {"": 1, "k": 10**3, "m": 10**6, "K": 1 << 10, "M": 1 << 20}
BLOCKS = "--num-gpu-blocks-override"


def token_bytes(config: Path) -> int:
    """Bytes of a token in the key-value cache: two vectors a layer and key head, of two bytes each; 0 where config.json
    does not say its sizes."""
    said = json.loads(config.read_text(encoding="utf-8"))
    said = {**said, **(said.get("text_config") or {})}
    try:
        width = said.get("head_dim") or said["hidden_size"] // said["num_attention_heads"]
        return int(said["num_hidden_layers"] * said["num_key_value_heads"] * width * 2 * 2)
    except (KeyError, TypeError):
        return 0


def number(command: Sequence[str], argument: str, otherwise: float) -> float:
    """The value of an argument, as vLLM reads it: `16k` are 16,000, `16K` are 16,384. Raises UsageError."""
    text = last_value(command, argument)
    if text is None:
        return otherwise
    match = re.fullmatch(r"(\d*\.?\d+)([kKmM]?)", text)
    if not match or not float(match[1]):
        raise UsageError(f"{argument} is {text!r}; expected a number above 0 (VLM_ARGS, models.yaml)")
    return float(match[1]) * UNITS[match[2]]


def fit_to_die(settings: Settings, command: Sequence[str], weights: VlmWeights, total: int | None) -> list[str]:
    """`command`, with fewer blocks of cache where a replica's share of the die does not hold those that it names.

    `total` are the bytes of the die, None where npu-smi does not say them: the command then stays. vllm-ascend takes
    all that is used on the die for its own, so gpu-memory-utilization holds for all replicas together, and for the
    layout server.

    Raises UsageError, with the arithmetic, where the last replica would find no room for one request of the greatest
    length.
    """
    if total is None:
        return list(command)
    replicas = settings.replicas_per_die
    share = number(command, "--gpu-memory-utilization", 0.9)
    tokens, length = (int(number(command, *said)) for said in (("--block-size", 128), ("--max-model-len", 0)))
    block = tokens * token_bytes(weights.path / "config.json")
    least = math.ceil(length / tokens) * block
    own = sum(file.stat().st_size for file in weights.path.glob("*.safetensors")) + BESIDES
    room = (share - settings.layout_share) * total
    if replicas * (own + least) > room:
        most = int(room // (own + least)) if room > 0 else 0
        raise UsageError(
            f"VLM_REPLICAS_PER_DIE is {replicas}: each of {weights.model.name} takes {own / GB:.1f} GB and at least "
            f"{least / GB:.1f} GB of cache, for {length} tokens, {replicas * (own + least) / GB:.1f} GB together, but "
            f"{share:g} of the die's {total / GB:.1f} GB are {share * total / GB:.1f}"
            + (
                f", {settings.layout_share * total / GB:.1f} of them the layout server's"
                if settings.layout_share
                else ""
            )
            + "; expected "
            + (f"at most {most}" if most else "a larger die, a smaller model or a smaller --max-model-len (VLM_ARGS)")
        )
    wanted = int(number(command, BLOCKS, 0))
    fitting = int((room / replicas - own) // block) if block else wanted
    return [*command, BLOCKS, str(fitting)] if fitting < wanted else list(command)
