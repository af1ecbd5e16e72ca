# SPDX-License-Identifier: Apache-2.0
"""Fold batch norms into convolutions: ``python -m demo_training.layout.fold CHECKPOINT OUT.npz`` (needs torch)."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch


def fold(state: dict[str, torch.Tensor], epsilon: float = 1e-5) -> dict[str, np.ndarray]:
    """Weights and biases of plain convolutions from a network's state, float32."""
    folded = {}
    for name, value in state.items():
        if ".norm." in name:
            continue
        stem = name.removesuffix(".conv.weight")
        if stem != name:
            norm = {key: state[f"{stem}.norm.{key}"] for key in ("weight", "bias", "running_mean", "running_var")}
            scale = norm["weight"] / torch.sqrt(norm["running_var"] + epsilon)
            folded[f"{stem}.conv.bias"] = norm["bias"] - norm["running_mean"] * scale
            value = value * scale[:, None, None, None]
        folded[name] = value
    return {name: value.to(torch.float32).contiguous().numpy() for name, value in folded.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    saved = torch.load(arguments.checkpoint, weights_only=True)
    arrays: dict[str, Any] = {**fold(saved["average"])}
    np.savez(arguments.out, **arrays)
    print(f"{arguments.out}: step {saved['step']}, {saved['seconds']:.0f} s of training")


if __name__ == "__main__":
    main()
