# SPDX-License-Identifier: Apache-2.0
"""vLLM's executor for one process, without a socket that every address reaches.

What: the executor that models.yaml names by `distributed-executor-backend`. The only rank meets itself in a file.
Why: vLLM makes a store for its ranks at 127.0.0.1, and PyTorch's store listens on all addresses whatever it is told.
    Anybody who reaches the machine could write into the engine's memory, without a key.
When it can go: when vLLM opens no store for one rank, or PyTorch's listens where it is told.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from vllm.v1.executor.uniproc_executor import UniProcExecutor


class OneProcess(UniProcExecutor):
    """As vLLM's; computes in the engine's process."""

    def _distributed_args(self) -> tuple[str, int, int]:
        """Where the ranks meet, the rank and the device's number."""
        _, rank, device = super()._distributed_args()
        self._meeting = tempfile.TemporaryDirectory(prefix="vllm-")  # as long as the engine lives
        return (Path(self._meeting.name) / "ranks").as_uri(), rank, device
