# SPDX-License-Identifier: Apache-2.0
"""Inputs and logits of every position by transformers >= 5, in float32 on the CPU unless told otherwise.

    python -m random_checkpoints.logits --model DIR --cases cases.safetensors --out reference.safetensors

For case i the file written holds ``i.input_ids`` [n], ``i.logits`` [n, vocabulary] float32 and, with images,
``i.pixel_values`` [patches, ...] float32 in the processor's order and ``i.image_grid_thw`` [images, 3]; with videos the
same names as the video processor's. With --new_tokens N, ``i.greedy`` are the tokens of the greedy answer.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from reference.cases import load_cases
from reference.device import DTYPES, Device, device_name
from tool_errors import run


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--cases", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", type=device_name, default="cpu")
    parser.add_argument("--dtype", choices=DTYPES, default="float32")
    parser.add_argument("--new_tokens", type=int, default=0)
    arguments = parser.parse_args()

    import torch
    from safetensors.torch import save_file

    from reference.model import ReferenceModel

    model = ReferenceModel(arguments.model, Device(arguments.device), arguments.dtype)
    results = {}
    for index, case in enumerate(load_cases(arguments.cases)):
        for name, value in model.logits(case).items():
            results[f"{index}.{name}"] = value.contiguous()
        if arguments.new_tokens:
            results[f"{index}.greedy"] = torch.tensor(model.generate(case, arguments.new_tokens))
    save_file(results, arguments.out, metadata={"torch": torch.__version__})
    return 0


if __name__ == "__main__":
    sys.exit(run(main))
