# SPDX-License-Identifier: Apache-2.0
"""The server's settings, read from the environment once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from served_weights.settings import WeightSettings
from tool_errors import UsageError


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
        LAYOUT_QUEUE, LAYOUT_MEMORY_SHARE and LAYOUT_THREADS; empty means unset. Raises UsageError."""
        device = env.get("LAYOUT_DEVICE") or "cpu"
        if re.fullmatch(r"cpu|npu(:\d+)?", device) is None:
            raise UsageError(f"LAYOUT_DEVICE is {device!r}; expected cpu, npu, or one like npu:1")
        return cls(
            weights=WeightSettings.from_environment(env),
            device=device,
            host=env.get("LAYOUT_HOST") or "127.0.0.1",
            port=int(_number(env, "LAYOUT_PORT", 8001, 1, 65535)),
            most_pages=int(_number(env, "LAYOUT_BATCH", 4, 1, 32)),
            wait_s=_number(env, "LAYOUT_WAIT_MS", 4, 0, 1000) / 1000,
            most_waiting=int(_number(env, "LAYOUT_QUEUE", 128, 1, 4096)),
            memory_share=_number(env, "LAYOUT_MEMORY_SHARE", 0.06, 0.01, 1, whole=False),
            threads=int(_number(env, "LAYOUT_THREADS", 1, 1, 256)),
        )


def _number(env: Mapping[str, str], name: str, default: float, least: float, most: float, whole: bool = True) -> float:
    text = env.get(name) or str(default)
    pattern = r"[0-9]{1,6}" if whole else r"[0-9]*\.?[0-9]{1,6}"
    if re.fullmatch(pattern, text) is None or not least <= float(text) <= most:
        kind = "a whole number" if whole else "a number"
        raise UsageError(f"{name} is {text!r}; expected {kind} from {least} to {most}")
    return float(text)
