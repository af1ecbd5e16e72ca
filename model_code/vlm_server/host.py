# SPDX-License-Identifier: Apache-2.0
"""What models.yaml leaves to the machine: values written there as `derived`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cgroup
from tool_errors import UsageError

DERIVED = "derived"
GIB = 1 << 30
# Processor flags, as /proc/cpuinfo spells them, of products of bfloat16 numbers (x86-64; aarch64).
BFLOAT16_FLAGS = frozenset(("avx512_bf16", "amx_bf16", "bf16"))
# Of products of 8-bit integers: newer instructions (VNNI, AMX) imply it. aarch64 has such too (i8mm), where nobody has
# tried them.
INT8_FLAG = "avx2"
# Cores that the parser, the API server and the operating system keep, where there are four or more.
RESERVED_CORES = 1
# The cache for 14 requests of 16384 tokens of PaddleOCR-VL in bfloat16 (18 KiB a token); more would lie idle.
MOST_KV_GIB = 4
# Its share of the memory: weights, activations, the parser and the operating system need the rest.
KV_SHARE = 1 / 8


@dataclass(frozen=True)
class Host:
    """cores: that this process may use; memory: bytes that it may use; dtype: what its processor (on Ascend the die)
    computes with; int8: whether it multiplies 8-bit integers; request_gib: cache that a request of the greatest length
    takes."""

    cores: int
    memory: int
    dtype: str
    int8: bool = False
    request_gib: int = 1

    @classmethod
    def measure(cls, root: Path = Path("/")) -> Host:
        """The machine, or the part of it that a container gets. ``root`` holds proc and sys."""
        info = text(root / "proc/cpuinfo")
        flags = {
            flag
            for line in info.splitlines()
            if line.lower().startswith(("flags", "features"))
            for flag in line.split()
        }
        # Without such instructions bfloat16 is computed through float32, piece by piece: slower than float32 itself.
        dtype = "bfloat16" if flags & BFLOAT16_FLAGS else "float32"
        return cls(cgroup.cores(root), cgroup.memory(root) or 8 * GIB, dtype, INT8_FLAG in flags)

    def values(self) -> dict[str, Any]:
        """Argument or environment variable -> value, for everything that may be `derived`."""
        return {
            "dtype": self.dtype,
            "VLLM_CPU_KVCACHE_SPACE": max(self.request_gib, min(MOST_KV_GIB, int(self.memory * KV_SHARE) // GIB)),
            "OMP_NUM_THREADS": self.cores - RESERVED_CORES if self.cores >= 4 else self.cores,
        }

    def fill(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """``arguments`` with every `derived` replaced. Raises UsageError where nothing is known for a name."""
        known = self.values()
        for name, value in arguments.items():
            if value == DERIVED and name not in known:
                raise UsageError(
                    f"models.yaml: {name} is 'derived', but only {', '.join(known)} can be derived; write a value"
                )
        return {name: known[name] if value == DERIVED else value for name, value in arguments.items()}


def text(file: Path) -> str:
    """Content of a small file, empty where it cannot be read."""
    try:
        return file.read_text(errors="replace").strip()
    except OSError:
        return ""
