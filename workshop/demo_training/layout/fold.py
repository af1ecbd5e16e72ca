# SPDX-License-Identifier: Apache-2.0
"""Fold batch norms into convolutions, in the environment `reference`.

    python -m demo_training.layout.fold CHECKPOINT OUT.npz [--earlier FILE.npz --share 0.2]

With ``--earlier`` the result is a mean with the folded weights of before this training: what it unlearnt of older kinds
of pages, they still know.
"""

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


def mean(later: dict[str, np.ndarray], earlier: dict[str, np.ndarray], share: float) -> dict[str, np.ndarray]:
    """``share`` of the earlier weights and the rest of the later ones. Raises ValueError where they are of another
    shape."""
    shapes = [{name: value.shape for name, value in weights.items()} for weights in (later, earlier)]
    if differing := sorted(set(shapes[0].items()) ^ set(shapes[1].items())):
        raise ValueError(f"the earlier weights are of another network; differing names or shapes: {differing[:6]}")
    return {name: share * earlier[name] + (1 - share) * value for name, value in later.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--earlier", type=Path, metavar="FILE.npz", help="take a mean with these folded weights")
    parser.add_argument(
        "--share", type=float, default=0.2, help="of the earlier weights in the mean (default %(default)s)"
    )
    arguments = parser.parse_args()
    saved = torch.load(arguments.checkpoint, weights_only=True)
    arrays: dict[str, Any] = {**fold(saved["average"])}
    if arguments.earlier:
        with np.load(arguments.earlier) as stored:
            arrays = {**mean(arrays, dict(stored), arguments.share)}
    np.savez(arguments.out, **arrays)
    print(f"{arguments.out}: step {saved['step']}, {saved['seconds']:.0f} s of training")


if __name__ == "__main__":
    main()
