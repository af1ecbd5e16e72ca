# SPDX-License-Identifier: Apache-2.0
"""More layers for weights that read already: the new ones add nothing at first, so the deeper model begins as good."""

from __future__ import annotations

import re
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from .config import DemoConfig
from .model import DemoModel

# Where new layers go: behind those that look for the place, and in the middle of the tower.
PLACES = {"model.layers.": 4, "visual.vision_model.encoder.layers.": 3}
SILENT = ("self_attn.o_proj.", "self_attn.out_proj.", "mlp.down_proj.", "mlp.fc2.")


def deepen(weights: dict[str, Tensor], config: DemoConfig) -> dict[str, Tensor]:
    """``weights`` of a model with as many layers as ``config`` or fewer -> all weights of the model of ``config``.

    Raises ValueError for more layers than that.
    """
    added = {
        prefix: layers - _layers(weights, prefix)
        for prefix, layers in zip(PLACES, (config.text_layers, config.vision_layers), strict=True)
    }
    if min(added.values()) < 0:
        raise ValueError(f"the weights have more layers than the model: {added}; expected none to be taken away")
    state = dict(DemoModel(config).state_dict())
    for name, value in weights.items():
        state[_moved(name, added)] = value
    for prefix, count in added.items():
        for layer in range(PLACES[prefix], PLACES[prefix] + count):
            for name in state:
                if name.startswith(f"{prefix}{layer}.") and any(part in name for part in SILENT):
                    state[name] = torch.zeros_like(state[name])
    return state


def exported(model: Path, config: DemoConfig) -> dict[str, Tensor]:
    """All weights, float32, of the model of ``config``, from the folder of an exported one with no more layers."""
    weights = {name: value.float() for name, value in load_file(model / "model.safetensors").items()}
    weights.pop("lm_head.weight")  # equal to the embedding
    return deepen(weights, config)


def _layers(weights: dict[str, Tensor], prefix: str) -> int:
    return 1 + max(int(name[len(prefix) :].split(".")[0]) for name in weights if name.startswith(prefix))


def _moved(name: str, added: dict[str, int]) -> str:
    for prefix, count in added.items():
        if name.startswith(prefix) and (found := re.match(r"\d+", name[len(prefix) :])):
            layer = int(found[0])
            rest = name[len(prefix) + len(found[0]) :]
            return f"{prefix}{layer + count if layer >= PLACES[prefix] else layer}{rest}"
    return name
