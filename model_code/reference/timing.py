# SPDX-License-Identifier: Apache-2.0
"""Times one device in a process of its own, so that its peak memory is its own: ``python -m reference.timing``.

Reads a job as JSON from stdin, writes its measurements as JSON to stdout.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tool_errors import run

from .device import Device

if TYPE_CHECKING:
    from torch import Tensor

    from .model import ReferenceModel


@dataclasses.dataclass(frozen=True)
class Benchmark:
    """What is timed: ``new_tokens`` greedy tokens after the images, ``runs`` times after ``warmup`` unmeasured ones."""

    model_path: str
    device: str
    dtype: str
    cases: str
    runs: int
    warmup: int
    new_tokens: int


@dataclasses.dataclass(frozen=True)
class Timing:
    """Seconds: ``total`` of each run over all images, and ``first`` of each image in each run until its first token
    (vision tower and prefill, copies to the device included). ``peak_memory`` in bytes."""

    device: str
    description: str
    torch: str
    load: float
    preprocess: float
    images: int
    prompt_tokens: int
    new_tokens: int
    total: list[float]
    first: list[float]
    peak_memory: int


class TokenClock:
    """A streamer for generate(): notes when each token is there. generate() first puts the prompt, then each token."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self.times: list[float] = []

    def put(self, _tokens: object) -> None:
        self._device.synchronize()
        self.times.append(time.perf_counter())

    def end(self) -> None:
        """Part of the interface; nothing is left to do."""


def time_inputs(model: ReferenceModel, inputs: dict[str, Tensor], new_tokens: int) -> tuple[float, float]:
    """Seconds until the first token and until the last."""
    clock = TokenClock(model.device)
    model.device.synchronize()
    began = time.perf_counter()
    model.continue_from(inputs, new_tokens, min_new_tokens=new_tokens, streamer=clock)
    return clock.times[1] - began, clock.times[-1] - began


def measure(job: Benchmark) -> Timing:
    device = Device(job.device)

    import torch

    from .cases import load_cases
    from .model import ReferenceModel

    began = time.perf_counter()
    model = ReferenceModel(Path(job.model_path), device, job.dtype)
    device.synchronize()
    load = time.perf_counter() - began
    cases = load_cases(Path(job.cases))
    began = time.perf_counter()
    prepared = [model.inputs(case) for case in cases]
    preprocess = time.perf_counter() - began
    prompt_tokens = sum(inputs["input_ids"].shape[1] for inputs in prepared)
    device.reset_peak_memory()
    total, first = [], []
    for number in range(job.warmup + job.runs):
        times = [time_inputs(model, inputs, job.new_tokens) for inputs in prepared]
        if number >= job.warmup:
            first += [pair[0] for pair in times]
            total.append(sum(pair[1] for pair in times))
    return Timing(
        device=device.name,
        description=device.description,
        torch=torch.__version__,
        load=load,
        preprocess=preprocess,
        images=len(cases),
        prompt_tokens=prompt_tokens,
        new_tokens=job.new_tokens * len(cases),
        total=total,
        first=first,
        peak_memory=device.peak_memory(),
    )


def main() -> int:
    json.dump(dataclasses.asdict(measure(Benchmark(**json.load(sys.stdin)))), sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(run(main))
