# SPDX-License-Identifier: Apache-2.0
"""What the replicas of a die share, before any is started: how much key-value cache each gets, and whether there is
room for it and for their graphs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import stacks
from declared_settings.vlm_args import GRAPH_WORDS, means
from served_weights.vlm import VlmWeights
from tool_errors import UsageError

from .cache_size import described, greatest_length, request_bytes, token_bytes
from .command import max_num_seqs
from .settings import Settings
from .words import last_value, number, whole

GB = 1e9
# Bytes of a replica besides weights and cache: CANN's context 0.4 GB, a profiling step's activations 1.0, and 1.3 by
# which the allocator grows while it serves. Estimates from reports of vllm-ascend on 64 GB dies; none was measured.
BESIDES = 2.7 * GB
BLOCKS = "--num-gpu-blocks-override"
# Words of VLM_ARGS that choose the graphs otherwise.
OTHER_GRAPHS = (*GRAPH_WORDS, "--cudagraph-capture-sizes", "--cuda-graph-sizes", "--max-cudagraph-capture-size")


def tokens_of_a_block(command: Sequence[str]) -> int:
    """As vllm-ascend sets it, at both pinned commits (`check_and_update_config` in its platform.py, which calls
    `refresh_block_size` in 0.23.0): 128, whatever `--block-size` says, with chunked prefill or a cache of prefixes.
    vLLM has both where nobody says no. Raises UsageError."""
    for name in ("enable-chunked-prefill", "enable-prefix-caching"):
        said = [word for word in command if means(word, [f"--{name}", f"--no-{name}"])]
        if not said or not said[-1].startswith("--no"):
            return 128
    return whole(command, "--block-size", 128)


def fit_to_die(settings: Settings, command: Sequence[str], weights: VlmWeights, total: int | None) -> list[str]:
    """`command`, with fewer blocks of cache where a replica's share of the die does not hold those that it names.

    `total` are the bytes of the die, None where npu-smi does not say them: the command then stays. What it says as
    gpu-memory-utilization holds for all replicas together, and for the layout server.

    Raises UsageError, with the arithmetic, where the last replica would find no room for one request of the greatest
    length.
    """
    if total is None:
        return list(command)
    replicas = settings.replicas_per_die
    share = number(command, "--gpu-memory-utilization", 0.9)
    tokens = tokens_of_a_block(command)
    length, config, dtype = greatest_length(command), weights.path / "config.json", last_value(command, "--dtype")
    least = request_bytes(config, dtype, length, tokens)
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
    wanted, block = whole(command, BLOCKS, 0), tokens * token_bytes(config, dtype)
    fitting = int((room / replicas - own) // block) if block else wanted
    return [*command, BLOCKS, str(fitting)] if fitting < wanted else list(command)


def share_of_a_replica(settings: Settings, command: Sequence[str], stack: str | None) -> list[str]:
    """`command` with the share of the die that one replica may take, where this stack's worker asks for that."""
    if not stacks.of(stack).own_memory or (settings.replicas_per_die == 1 and not settings.layout_share):
        return list(command)
    share = number(command, "--gpu-memory-utilization", 0.9) - settings.layout_share
    # Rounded down: all together must not pass what the command says.
    return [*command, "--gpu-memory-utilization", str(math.floor(share / settings.replicas_per_die * 1e4) / 1e4)]


def sizes(most: int) -> int:
    """How many steps vLLM captures up to `most` tokens, which it cuts at 512: of 1, 2, 4, each multiple of 8 below 256
    and of 16 from there on."""
    most = min(most, 512)
    return sum(size <= most for size in (1, 2, 4, *range(8, 256, 8), *range(256, 513, 16)))


def check_graphs_of_a_die(settings: Settings, command: Sequence[str], weights: VlmWeights, stack: str | None) -> None:
    """Raise UsageError where the replicas of a die capture more graphs than it has streams for.

    One replica bounds its own number (update_aclgraph_sizes). Several do not know of each other, and the later ones
    would fail at each capture.
    """
    replicas, layers = settings.replicas_per_die, described(weights.path / "config.json").get("num_hidden_layers")
    most_graphs = stacks.of(stack).graphs_of_a_die
    if not most_graphs or replicas == 1 or settings.enforce_eager or settings.graph_mode == "NONE" or not layers:
        return
    if any(means(word, OTHER_GRAPHS) for word in settings.arguments):
        return
    # Graphs of one size: the step's pieces between the layers' attention. Sizes go up to twice the requests at once.
    asked, pieces = max_num_seqs(command), layers + 1
    if replicas * sizes(2 * asked) * pieces > most_graphs:
        fitting = (n for n in range(1, min(asked, 513)) if replicas * sizes(2 * n) * pieces <= most_graphs)
        most = max(fitting, default=0)
        raise UsageError(
            f"VLM_REPLICAS_PER_DIE is {replicas}: with {asked} requests at once each, the graphs of all take more than "
            f"the {most_graphs} streams of a die; expected --max-num-seqs of at most {replicas * most} for the die "
            f"(VLM_ARGS), or STACK={stacks.NEWEST.key}"
        )
