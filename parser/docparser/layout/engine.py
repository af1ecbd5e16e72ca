# SPDX-License-Identifier: Apache-2.0
"""OpenVINO running a model on the CPU, in float32."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import openvino as ov


class Engine:
    """Not for several threads at once. ``model`` is OpenVINO's, or the file of one."""

    def __init__(self, model: ov.Model | Path, threads: int = 1) -> None:
        core = ov.Core()
        read = model if isinstance(model, ov.Model) else core.read_model(model)
        options = {
            # Otherwise bfloat16 or float16 where the processor has them, which moves boxes.
            "INFERENCE_PRECISION_HINT": "f32",
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": 1,
            # The service chooses the cores of its processes, and may change them.
            "ENABLE_CPU_PINNING": False,
        }
        self._compiled = core.compile_model(read, "CPU", options)
        self._request = self._compiled.create_infer_request()
        self.inputs = sorted(port.get_any_name() for port in self._compiled.inputs)

    def run(self, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """By name, each for one page; the results in the model's order, as copies."""
        self._request.infer({name: np.ascontiguousarray(value) for name, value in inputs.items()})
        return [np.array(self._request.get_output_tensor(index).data) for index in range(len(self._compiled.outputs))]

    def __call__(self, batch: Sequence[np.ndarray]) -> list[np.ndarray]:
        """As PaddleX asks Paddle: inputs in the order of their names, each ``[pages, ...]``; the pages' results one
        after the other."""
        pages = [
            self.run({name: values[index : index + 1] for name, values in zip(self.inputs, batch, strict=True)})
            for index in range(len(batch[0]))
        ]
        return [np.concatenate(parts) for parts in zip(*pages, strict=True)]
