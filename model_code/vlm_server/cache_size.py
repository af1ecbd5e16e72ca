# SPDX-License-Identifier: Apache-2.0
"""How much key-value cache a request takes; vLLM does not start where one of the greatest length has no room."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .words import last_value, number


def described(config: Path) -> dict[str, Any]:
    """config.json, with the language model's own section."""
    said: dict[str, Any] = json.loads(config.read_text(encoding="utf-8"))
    return {**said, **(said.get("text_config") or {})}


def token_bytes(config: Path, dtype: str | None) -> int:
    """Bytes of a token in the cache: two vectors a layer and key head, of two bytes each number, four in float32; 0
    where config.json does not say its sizes."""
    said = described(config)
    try:
        width = said.get("head_dim") or said["hidden_size"] // said["num_attention_heads"]
        numbers = said["num_hidden_layers"] * said["num_key_value_heads"] * width * 2
        return int(numbers * (4 if dtype in ("float", "float32") else 2))
    except (KeyError, TypeError):
        return 0


def request_gib(config: Path, dtype: str | None, length: int) -> int:
    """Whole GiB, as VLLM_CPU_KVCACHE_SPACE names them, in which a request of `length` tokens has room; at least 1."""
    return max(1, math.ceil(request_bytes(config, dtype, length) / (1 << 30)))


def request_bytes(config: Path, dtype: str | None, length: int, block: int = 128) -> int:
    """Bytes of the cache of a request of `length` tokens, in whole blocks; on a CPU vLLM's have 128 tokens."""
    return math.ceil(length / block) * block * token_bytes(config, dtype)


def greatest_length(command: Sequence[str]) -> int:
    """--max-model-len; 0 where vLLM takes what its cache holds, from 0.23 on. Raises UsageError."""
    fitted = last_value(command, "--max-model-len") in ("auto", "-1")
    return 0 if fitted else int(number(command, "--max-model-len", 0))
