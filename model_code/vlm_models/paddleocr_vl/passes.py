# SPDX-License-Identifier: Apache-2.0
"""How many patches go through the tower at once.

A pass's activations are what the tower needs beside its weights, and a burst of large pages must not exhaust memory.
On a CPU a pass should moreover fit into the cache: there larger passes are slower, not faster.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from .config import PaddleOCRVLVisionConfig

Grid = tuple[int, int, int]

# Share of an accelerator's memory that a pass may take; weights and key-value cache take the rest.
MEMORY_SHARE = 0.02
# Cache of a CPU that does not say (containers without /sys).
USUAL_CACHE = 32 << 20


def cut_into_passes(grids: Sequence[Grid], limit: int) -> Iterator[slice]:
    """Consecutive images of at most ``limit`` patches together; a larger image has a pass of its own."""
    first, patches = 0, 0
    for index, (_, rows, columns) in enumerate(grids):
        if index > first and patches + rows * columns > limit:
            yield slice(first, index)
            first, patches = index, 0
        patches += rows * columns
    yield slice(first, len(grids))


def default_patches_per_pass(config: PaddleOCRVLVisionConfig, device: torch.device, dtype: torch.dtype) -> int:
    """Patches whose activations fit the device: a CPU's last-level cache, or a share of an accelerator's memory."""
    # The most that a layer holds at a time: its input, and q, k, v before and after rotation or the MLP's hidden
    # features.
    widest = config.hidden_size + max(6 * config.hidden_size, 2 * config.intermediate_size)
    memory = last_level_cache() if device.type == "cpu" else int(device_memory(device) * MEMORY_SHARE)
    return max(1024, memory // (widest * dtype.itemsize))


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
