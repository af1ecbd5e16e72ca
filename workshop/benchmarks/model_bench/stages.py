# SPDX-License-Identifier: Apache-2.0
"""Where a vLLM server's time goes: seconds in image processing, vision encode, prefill and decode.

Wrappers around four methods of vLLM 0.11 to 0.23, put in place by model_bench.serve in every process of a server. Each
process keeps a file DIR/<pid>.json of its totals. A step that holds a prompt's tokens counts as prefill, with the
tokens of other requests that are decoded in it.
"""

from __future__ import annotations

import functools
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Processor time of the calling thread: for a busy machine, with one thread for the matrices.
CLOCK = "MODEL_BENCH_CLOCK"
CLOCKS = {"wall": time.perf_counter, "processor": time.thread_time}
STAGES = ("preprocess", "encode", "prefill", "decode")


class Stages:
    """Totals of this process, written after every change."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.start()

    def start(self) -> None:
        """Begin at zero, in a file of this process."""
        self.pid = os.getpid()
        self.file, self.totals = self.folder / f"{self.pid}.json", dict.fromkeys(STAGES, 0.0)

    def add(self, stage: str, seconds: float) -> None:
        if os.getpid() != self.pid:
            # A fork has a copy of what its parent had counted.
            self.start()
        self.totals[stage] += seconds
        scratch = self.file.with_suffix(".new")
        scratch.write_text(json.dumps(self.totals))
        scratch.replace(self.file)


def timed(owner: type, name: str, add: Callable[[float, tuple[Any, ...]], None]) -> None:
    """Replace a method by one that reports its seconds and its arguments."""
    method = getattr(owner, name)

    @functools.wraps(method)
    def wrapper(*words: Any, **options: Any) -> Any:
        clock = CLOCKS[os.environ.get(CLOCK) or "wall"]
        began = clock()
        try:
            return method(*words, **options)
        finally:
            add(clock() - began, words)

    setattr(owner, name, wrapper)


def watch(folder: Path) -> None:
    from vllm.multimodal.processing import BaseMultiModalProcessor
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    stages = Stages(folder)
    kind, encoding = "decode", 0.0

    def encoded(seconds: float, _words: tuple[Any, ...]) -> None:
        nonlocal encoding
        encoding += seconds
        stages.add("encode", seconds)

    def executed(seconds: float, words: tuple[Any, ...]) -> None:
        nonlocal kind, encoding
        scheduled = words[1].num_scheduled_tokens
        if scheduled:
            kind = "prefill" if max(scheduled.values()) > 1 else "decode"
            stages.add(kind, seconds - encoding)
        encoding = 0.0

    timed(BaseMultiModalProcessor, "apply", lambda seconds, _: stages.add("preprocess", seconds))
    timed(GPUModelRunner, "_execute_mm_encoder", encoded)
    timed(GPUModelRunner, "execute_model", executed)
    # Choosing the next tokens is a call of its own, and belongs to the step before it.
    timed(GPUModelRunner, "sample_tokens", lambda seconds, _: stages.add(kind, seconds))


def totals(folder: Path) -> dict[str, float]:
    """Seconds of all processes together."""
    found = [json.loads(file.read_text()) for file in folder.glob("*.json")]
    return {stage: sum(one[stage] for one in found) for stage in STAGES}
