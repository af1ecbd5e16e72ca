# SPDX-License-Identifier: Apache-2.0
"""vLLM's worker on a CPU, without a step that nothing needs.

What: the worker that models.yaml names by `worker-cls`. It runs no step while it asks for the size of the cache.
Why: from 0.23.0 on, vLLM runs one of `max-num-batched-tokens` there: with the published weights, most of a start on
    few cores. The step is for compiled graphs, and for memory that VLLM_CPU_KVCACHE_SPACE settles anyway.
When it can go: when vLLM leaves the step out with `enforce-eager`.
"""

from __future__ import annotations

from typing import Any

from vllm.v1.worker import cpu_worker


class CPUWorker(cpu_worker.CPUWorker):
    """As vLLM's, and ready sooner."""

    def determine_available_memory(self) -> int:
        """Bytes for the key-value cache."""
        runner: Any = self.model_runner
        runner.warming_up_model = lambda: None  # for this call alone
        try:
            return super().determine_available_memory()
        finally:
            del runner.warming_up_model
