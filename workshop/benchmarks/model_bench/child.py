# SPDX-License-Identifier: Apache-2.0
"""One implementation in its own process; answers a line of JSON on stdout for each line on stdin.

    python -m model_bench.child --implementation ours --folder DIR --dtype bfloat16 --device cpu --layers 27

``encode``: {"seconds": ...}; ``save``: the same, and DIR/<implementation>.safetensors holds the features; ``warm``:
encodes a few crops; ``roof``: {"linear": s, "attention": s}.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from .roof import roof
from .towers import TOWERS

# Crops that are encoded before anything is timed: kernels are made when they are first used.
WARM = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--implementation", choices=TOWERS, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--layers", type=int, required=True)
    parser.add_argument("--clock", choices=("wall", "processor"), default="wall")
    arguments = parser.parse_args()
    clock = time.perf_counter if arguments.clock == "wall" else time.process_time
    # Libraries print to stdout as they load; answers go to what stdout was.
    answers, sys.stdout = os.fdopen(os.dup(1), "w", buffering=1), sys.stderr
    os.dup2(2, 1)
    if arguments.device == "npu":
        import torch_npu  # noqa: F401 - makes the device known
    dtype, device = getattr(torch, arguments.dtype), torch.device(arguments.device)
    weights = load_file(arguments.folder / "weights.safetensors")
    pixels = load_file(arguments.folder / "pixels.safetensors")["pixels"].to(device)
    grids = [tuple(grid) for grid in json.loads((arguments.folder / "grids.json").read_text())]
    synchronise = (lambda: None) if device.type == "cpu" else getattr(torch, device.type).synchronize
    prepare = TOWERS[arguments.implementation](weights, device, arguments.layers, dtype)
    del weights
    encode = prepare(pixels, grids)
    warm = prepare(pixels[: sum(rows * columns for _, rows, columns in grids[:WARM])], grids[:WARM])
    answers.write(json.dumps({"torch": torch.__version__, "threads": torch.get_num_threads()}) + "\n")
    for line in sys.stdin:
        with torch.inference_mode():
            if line.strip() in ("encode", "save"):
                synchronise()
                began = clock()
                features = encode()
                synchronise()
                answer = {"seconds": clock() - began}
                if line.strip() == "save":
                    save_file(
                        {"features": features.float().cpu().contiguous()},
                        arguments.folder / f"{arguments.implementation}.safetensors",
                    )
                del features
            elif line.strip() == "warm":
                warm()
                answer = {}
            elif line.strip() == "roof":
                from vlm_models.paddleocr_vl.config import PaddleOCRVLVisionConfig
                from vlm_models.paddleocr_vl.passes import default_patches_per_pass

                rows = default_patches_per_pass(PaddleOCRVLVisionConfig(), device, dtype)
                lengths = [grid_rows * columns for _, grid_rows, columns in grids]
                answer = roof(lengths, arguments.layers, rows, dtype, device, synchronise, clock)
            else:
                raise ValueError(f"unknown request {line.strip()!r}")
        answers.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
