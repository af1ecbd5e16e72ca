# SPDX-License-Identifier: Apache-2.0
"""What one job of a child process may use."""

from __future__ import annotations

import dataclasses

from docparser.settings import Settings

PAGES_PER_SHARE = 100  # a document of 100 pages may take twice the time of a short one, and so on


@dataclasses.dataclass(frozen=True)
class Bounds:
    """``cpu_s`` and ``wall_s`` in seconds; ``memory`` in bytes beyond what the zygote has; ``output`` in bytes."""

    cpu_s: float
    wall_s: float
    memory: int
    output: int

    @classmethod
    def of(cls, settings: Settings) -> Bounds:
        return cls(
            settings.child_cpu_s,
            settings.child_wall_s,
            settings.child_memory_mib << 20,
            settings.child_output_mib << 20,
        )

    def for_pages(self, count: int) -> Bounds:
        """Of a job over ``count`` pages: time grows with the pages, each of which took far more time to parse."""
        shares = 1 + count / PAGES_PER_SHARE
        return dataclasses.replace(self, cpu_s=self.cpu_s * shares, wall_s=self.wall_s * shares)

    def exceeded(self, bound: str) -> str:
        """In words, with the setting that the operator can change; ``bound`` is a key of the table below."""
        return {
            "cpu": f"it took more than {self.cpu_s:.0f} s of processor time (PARSER_CHILD_CPU_S)",
            "wall": f"it took more than {self.wall_s:.0f} s (PARSER_CHILD_WALL_S)",
            "memory": f"it needs more than {self.memory >> 20} MiB of memory (PARSER_CHILD_MEMORY_MIB)",
            "output": f"the output is larger than {self.output >> 20} MiB (PARSER_CHILD_OUTPUT_MIB)",
            "nesting": "its text is nested too deeply",
        }[bound]
