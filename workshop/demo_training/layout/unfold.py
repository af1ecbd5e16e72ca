# SPDX-License-Identifier: Apache-2.0
"""A checkpoint to go on training from, made of folded weights.

    python -m demo_training.layout.unfold IN.npz OUT/last.pt

``fold`` has taken the batch norms into the convolutions. Each gets one again that leaves its output as it is: scale and
shift undo the mean and deviation that the convolution's output has on drawn pages.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch

from .network import LayoutNetwork, Unit
from .targets import draw_sample

BATCH = 8


def unfold(weights: dict[str, np.ndarray], images: torch.Tensor) -> LayoutNetwork:
    """The network of ``weights`` (names as ``fold`` gives them); ``images`` [N, 1, 800, 800] float32 0..1."""
    network = LayoutNetwork().eval()
    state = network.state_dict()
    for name, value in weights.items():
        owner = name.removesuffix(".conv.bias")
        if name in state:
            state[name] = torch.from_numpy(value)
        elif f"{owner}.norm.bias" in state:
            # With these a norm does nothing but add the convolution's bias.
            state[f"{owner}.norm.bias"] = torch.from_numpy(value)
            state[f"{owner}.norm.running_var"] = torch.full_like(state[f"{owner}.norm.running_var"], 1 - 1e-5)
        else:
            raise ValueError(f"{name} belongs to no layer of the network")
    network.load_state_dict(state)
    for unit in (module for module in network.modules() if isinstance(module, Unit)):
        _give_statistics(network, unit, images)
    return network


@torch.no_grad()
def _give_statistics(network: LayoutNetwork, unit: Unit, images: torch.Tensor) -> None:
    """Running statistics of ``unit``, with scale and shift that undo them."""
    seen: list[torch.Tensor] = []
    hook = unit.conv.register_forward_hook(lambda module, given, output: seen.append(_moments(output)))
    for start in range(0, len(images), BATCH):
        network(images[start : start + BATCH])
    hook.remove()
    mean, square = torch.stack(seen).mean(0)
    norm, shift = unit.norm, unit.norm.bias.clone()
    assert norm.running_mean is not None and norm.running_var is not None, "the norms of Unit keep both"
    norm.running_mean.copy_(mean)
    norm.running_var.copy_((square - mean**2).clamp(min=1e-6))
    norm.weight.copy_(torch.sqrt(norm.running_var + norm.eps))
    norm.bias.copy_(shift + mean)


def _moments(output: torch.Tensor) -> torch.Tensor:
    """[2, channels]: means of the values and of their squares."""
    return torch.stack([output.mean((0, 2, 3)), (output**2).mean((0, 2, 3))])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--pages", type=int, default=64, help="drawn pages that the statistics are taken of")
    arguments = parser.parse_args()
    pages = np.stack([draw_sample(seed, "train").image for seed in range(arguments.pages)])
    with np.load(arguments.weights) as stored:
        network = unfold(dict(stored), torch.from_numpy(pages)[:, None].float() / 255)
    state = network.state_dict()
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    # No optimizer: its moments were not kept, and start afresh.
    torch.save({"network": state, "average": state, "optimizer": None, "step": 0, "seconds": 0.0}, arguments.out)
    print(f"{arguments.out}: {sum(value.numel() for value in state.values())} values")


if __name__ == "__main__":
    main()
