# SPDX-License-Identifier: Apache-2.0
"""The server's settings, read from the environment once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import atlas
import declared_settings
from served_weights.settings import WeightSettings


@dataclass(frozen=True)
class Settings:
    """``memory_share`` is the largest share of a die's memory that the server takes. A page waits ``wait_s`` for other
    pages."""

    weights: WeightSettings
    device: str
    host: str
    port: int
    most_pages: int
    wait_s: float
    most_waiting: int
    memory_share: float

    @classmethod
    def from_environment(cls, env: Mapping[str, str]) -> Settings:
        """Read what WeightSettings reads, and LAYOUT_DEVICE, LAYOUT_HOST, LAYOUT_PORT, LAYOUT_BATCH, LAYOUT_WAIT_MS,
        LAYOUT_QUEUE, LAYOUT_MEMORY_SHARE, and SOC_VERSION (the image's); empty means unset. Raises UsageError."""
        device = declared_settings.text(env, "LAYOUT_DEVICE")
        atlas.of_soc(env.get("SOC_VERSION") or atlas.DEFAULT.soc).check_layout(device)
        return cls(
            weights=WeightSettings.from_environment(env),
            device=device,
            host=env.get("LAYOUT_HOST") or "127.0.0.1",
            port=declared_settings.port(env, "LAYOUT_PORT"),
            most_pages=declared_settings.whole(env, "LAYOUT_BATCH"),
            wait_s=declared_settings.whole(env, "LAYOUT_WAIT_MS") / 1000,
            most_waiting=declared_settings.whole(env, "LAYOUT_QUEUE"),
            memory_share=declared_settings.number(env, "LAYOUT_MEMORY_SHARE"),
        )
