# SPDX-License-Identifier: Apache-2.0
"""The parser's need of memory, by the number of its workers, and how many it starts by default.

SHARED is 1 GiB for the service, 1 for requests (PARSER_MAX_BODIES_MIB), 4 for two renderers (PARSER_RENDER_MEMORY_MIB)
and 3 for four children (PARSER_CHILD_MEMORY_MIB) at their bounds at once. A worker holds 0.93 GiB of its own with
PP-DocLayoutV3, which PaddleOCR-VL-1.5 and 1.6 bring, 0.65 with PP-DocLayoutV2 (docs/benchmarks.md).
"""

from __future__ import annotations

GIB = 1 << 30
SHARED, WORKER = 9 * GIB, GIB
MOST = 32  # by default: for the pages of 16 dies, by arithmetic (docs/benchmarks.md)


def of_workers(workers: int) -> int:
    """Bytes for so many workers."""
    return SHARED + workers * WORKER


def most_workers(memory: int) -> int:
    """The number of workers that fit into so many bytes, at least one."""
    return max(1, (memory - SHARED) // WORKER)


def default_workers(cores: int, memory: int | None) -> int:
    """Half the cores, MOST at most, and as many as fit into ``memory`` (bytes; None where that is unknown). Two are
    started whatever it is."""
    fit = most_workers(memory) if memory else cores
    return max(min(2, cores), min(MOST, cores // 2, fit))
