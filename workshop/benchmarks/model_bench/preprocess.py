# SPDX-License-Identifier: Apache-2.0
"""Image processing of a page's crops, in its own process: RGB pixels -> patches of the vision tower.

    python -m model_bench.preprocess --implementation ours --folder DIR

Answers a line of JSON on stdout for each line on stdin. ``run``: {"seconds": ...}; ``save``: the same, and
DIR/<implementation>.safetensors holds the values, row-major. One thread, as in a server's event loop.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from safetensors.torch import save_file
from torch import Tensor

from .crops import MAX_PIXELS, MERGE, MIN_PIXELS, PAGE
from .drawing import png

VALUES: dict[str, Any] = {"patch_size": 14, "merge_size": MERGE, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}
# () -> patches of each crop
Process = Callable[[], list[Any]]


def ours(images: list[Image.Image]) -> tuple[Process, Callable[[list[Any]], Tensor]]:
    from vlm_models.paddleocr_vl.image_processing import PaddleOCRVLImageProcessor, merge_block_order
    from vlm_models.pixel_limits import PixelLimits

    processor = PaddleOCRVLImageProcessor(min_pixels=MIN_PIXELS, max_pixels=MAX_PIXELS, **VALUES)
    limits = PixelLimits(MIN_PIXELS, MAX_PIXELS, MAX_PIXELS)

    def row_major(made: list[Any]) -> Tensor:
        parts = []
        for patches, (_, rows, columns) in made:
            ordered = torch.empty(patches.shape)
            ordered[torch.from_numpy(merge_block_order(rows, columns, MERGE))] = patches
            parts.append(ordered)
        return torch.cat(parts)

    return lambda: [processor.patches(image, limits) for image in images], row_major


def transformers_pil(images: list[Image.Image]) -> tuple[Process, Callable[[list[Any]], Tensor]]:
    # Runs in the environment `reference`; the VLM server's transformers is older.
    from transformers.models.paddleocr_vl.image_processing_pil_paddleocr_vl import (  # type: ignore[import-not-found]
        PaddleOCRVLImageProcessorPil,
    )

    processor = PaddleOCRVLImageProcessorPil(size={"shortest_edge": MIN_PIXELS, "longest_edge": MAX_PIXELS}, **VALUES)
    return (
        lambda: [processor(image, return_tensors="pt")["pixel_values"] for image in images],
        lambda made: torch.cat([values.flatten(1) for values in made]),
    )


PROCESSORS = {"ours": ours, "transformers": transformers_pil}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--implementation", choices=PROCESSORS, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--clock", choices=("wall", "processor"), default="wall")
    arguments = parser.parse_args()
    clock = time.perf_counter if arguments.clock == "wall" else time.process_time
    answers, sys.stdout = os.fdopen(os.dup(1), "w", buffering=1), sys.stderr
    os.dup2(2, 1)
    torch.set_num_threads(1)
    images = [Image.open(io.BytesIO(png(*size, number))).convert("RGB") for number, size in enumerate(PAGE)]
    process, row_major = PROCESSORS[arguments.implementation](images)
    answers.write(json.dumps({"torch": torch.__version__, "threads": 1}) + "\n")
    for line in sys.stdin:
        began = clock()
        made = process()
        answer = {"seconds": clock() - began}
        if line.strip() == "save":
            values = row_major(made).float().contiguous()
            save_file({"features": values}, arguments.folder / f"{arguments.implementation}.safetensors")
        elif line.strip() != "run":
            raise ValueError(f"unknown request {line.strip()!r}")
        answers.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
