# SPDX-License-Identifier: Apache-2.0
"""How many patches go through the tower at once.

A pass's activations are what the tower needs beside its weights, and a burst of large pages must not exhaust memory.
On a CPU a pass should moreover fit into the cache: there larger passes are slower, not faster.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:  # the check of a die reads a bound here, and needs no transformers
    from .config import PaddleOCRVLVisionConfig

Grid = tuple[int, int, int]

# Share of an accelerator's memory that a pass may take; weights and key-value cache take the rest.
MEMORY_SHARE = 0.02
# Images of a pass: npu_fusion_attention is documented for about 1000 sequences in one call. vLLM's 128 requests of 8
# images are 1024, and VLM_ARGS can ask for more.
MOST_IMAGES = 1000
# Cache of a CPU that does not say (containers without /sys).
USUAL_CACHE = 32 << 20


def cut_into_passes(grids: Sequence[Grid], limit: int) -> Iterator[slice]:
    """Consecutive images, at most MOST_IMAGES, of at most ``limit`` patches together; a larger image has a pass of its
    own."""
    first, patches = 0, 0
    for index, (_, rows, columns) in enumerate(grids):
        if index > first and (patches + rows * columns > limit or index - first == MOST_IMAGES):
            yield slice(first, index)
            first, patches = index, 0
        patches += rows * columns
    yield slice(first, len(grids))


def default_patches_per_pass(config: PaddleOCRVLVisionConfig, device: torch.device, dtype: torch.dtype) -> int:
    """Patches whose activations fit the device: a CPU's last-level cache, or a share of an accelerator's memory."""
    # The most that a layer holds at a time: its input, and q, k, v before and after rotation or the MLP's hidden
    # features.
    hidden = config.hidden_size
    held = (hidden + max(6 * hidden, 2 * config.intermediate_size)) * dtype.itemsize
    if device.type == "cpu":
        return max(1024, last_level_cache() // held)
    # An NPU rotates q and k from float32 to float32, and attends with heads of 128 features: q, k, v and the result.
    held = max(held, (6 * hidden + 4 * config.num_attention_heads * 128) * dtype.itemsize + 2 * 2 * hidden * 4)
    return max(1024, int(device_memory(device) * MEMORY_SHARE) // held)


def device_memory(device: torch.device) -> int:
    """Bytes of an accelerator's memory."""
    return getattr(torch, device.type).get_device_properties(device).total_memory


def last_level_cache() -> int:
    """Bytes of the largest cache that the first processor uses."""
    sizes = [
        int(text[:-1]) << {"K": 10, "M": 20}[text[-1]]
        for file in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")
        if (text := file.read_text().strip())[-1:] in "KM" and text[:-1].isdigit()
    ]
    return max(sizes, default=USUAL_CACHE)
