# SPDX-License-Identifier: Apache-2.0
"""The server's settings, read from the environment once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import env_values
from env_values import WrongValue
from served_weights.settings import WeightSettings


@dataclass(frozen=True)
class Settings:
    """``memory_share`` is the most that the server takes of a die's memory; ``wait_s`` how long a page waits for
    others; ``threads`` are the CPU's."""

    weights: WeightSettings
    device: str
    host: str
    port: int
    most_pages: int
    wait_s: float
    most_waiting: int
    memory_share: float
    threads: int

    @classmethod
    def from_environment(cls, env: Mapping[str, str]) -> Settings:
        """Read what WeightSettings reads, and LAYOUT_DEVICE, LAYOUT_HOST, LAYOUT_PORT, LAYOUT_BATCH, LAYOUT_WAIT_MS,
        LAYOUT_QUEUE, LAYOUT_MEMORY_SHARE and LAYOUT_THREADS; empty means unset. Raises WrongValue."""
        device = env.get("LAYOUT_DEVICE") or "cpu"
        if re.fullmatch(r"cpu|npu(:\d+)?", device) is None:
            raise WrongValue("LAYOUT_DEVICE", device, "cpu, npu, or one like npu:1")
        return cls(
            weights=WeightSettings.from_environment(env),
            device=device,
            host=env.get("LAYOUT_HOST") or "127.0.0.1",
            port=env_values.port(env, "LAYOUT_PORT", 8001),
            most_pages=env_values.whole(env, "LAYOUT_BATCH", 4, 1, 32),
            wait_s=env_values.whole(env, "LAYOUT_WAIT_MS", 4, 0, 1000) / 1000,
            most_waiting=env_values.whole(env, "LAYOUT_QUEUE", 128, 1, 4096),
            memory_share=env_values.number(env, "LAYOUT_MEMORY_SHARE", 0.06, 0.01, 1),
            threads=env_values.whole(env, "LAYOUT_THREADS", 1, 1, 256),
        )
