# SPDX-License-Identifier: Apache-2.0
"""Inputs and logits of every position by vLLM with the plugin: what eval_accuracy.py compares with transformers.

    python -m plugin_logits --model DIR --cases cases.safetensors --out plugin.safetensors [--dtype float32]

Runs in the VLM server's environment; tensors are exchanged with the reference's as files. Without --cases it only says
whether this environment's stack serves the model.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from reference.cases import load_cases
from served_weights.settings import WeightSettings
from served_weights.vlm import recognised
from tool_errors import EnvironmentSetupError, UsageError, run
from vlm_server.serving import running_stack


def check_stack(weights: Path) -> None:
    """Raise EnvironmentSetupError unless this environment's vLLM serves the model whose weights these are."""
    settings = WeightSettings.from_environment(os.environ)
    try:
        recognised(weights, settings.catalog).check_stack(running_stack())
    except UsageError as error:
        raise EnvironmentSetupError(str(error)) from error


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--cases", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--dtype", choices=("float16", "bfloat16", "float32"), default="float32")
    arguments = parser.parse_args()

    if (arguments.cases is None) != (arguments.out is None):
        parser.error("--cases and --out belong together")
    check_stack(arguments.model)
    if arguments.cases is None:
        return
    # First of all, since it sets what vLLM reads while it is imported.
    from .engine import logits, start  # isort: skip
    import torch
    from safetensors.torch import save_file

    llm = start(arguments.model, arguments.dtype)
    results = {}
    for index, case in enumerate(load_cases(arguments.cases)):
        for name, value in logits(llm, case).items():
            results[f"{index}.{name}"] = value.contiguous()
    save_file(results, arguments.out, metadata={"torch": torch.__version__})


if __name__ == "__main__":
    sys.exit(run(main))
