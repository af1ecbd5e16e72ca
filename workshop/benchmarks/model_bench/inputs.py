# SPDX-License-Identifier: Apache-2.0
"""Random weights in the published shapes and names, and patches: what all implementations get.

python -m model_bench.inputs --out DIR --layers 27 --crops 30
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from .crops import PATCH, grids

HIDDEN, INTERMEDIATE, HEADS, TEXT, POSITIONS, MERGED = 1152, 4304, 16, 1024, 27 * 27, 4 * 1152
LAYER = {
    "layer_norm1": (HIDDEN,),
    "layer_norm2": (HIDDEN,),
    **{f"self_attn.{name}_proj": (HIDDEN, HIDDEN) for name in ("q", "k", "v", "out")},
    "mlp.fc1": (INTERMEDIATE, HIDDEN),
    "mlp.fc2": (HIDDEN, INTERMEDIATE),
}


def module_shapes(layers: int) -> dict[str, tuple[int, ...]]:
    """Module -> shape of its weight; every module but the position embedding has a bias too."""
    tower = "visual.vision_model."
    return {
        f"{tower}embeddings.patch_embedding": (HIDDEN, 3, PATCH, PATCH),
        f"{tower}embeddings.position_embedding": (POSITIONS, HIDDEN),
        **{f"{tower}encoder.layers.{i}.{name}": shape for i in range(layers) for name, shape in LAYER.items()},
        f"{tower}post_layernorm": (HIDDEN,),
        "mlp_AR.pre_norm": (HIDDEN,),
        "mlp_AR.linear_1": (MERGED, MERGED),
        "mlp_AR.linear_2": (TEXT, MERGED),
    }


def random_weights(layers: int, seed: int = 0) -> dict[str, Tensor]:
    """Norms near one, matrices that keep the size of their input; float32."""
    generator = torch.Generator().manual_seed(seed)
    weights = {}
    for name, shape in module_shapes(layers).items():
        values = torch.randn(shape, generator=generator)
        weights[f"{name}.weight"] = 1 + 0.1 * values if len(shape) == 1 else values / (values[0].numel() ** 0.5)
        if "position_embedding" not in name:
            weights[f"{name}.bias"] = 0.1 * torch.randn(shape[0], generator=generator)
    return weights


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--layers", type=int, default=27)
    parser.add_argument("--crops", type=int, default=30)
    arguments = parser.parse_args()
    places = grids(arguments.crops)
    patches = sum(rows * columns for _, rows, columns in places)
    pixels = torch.rand((patches, 3, PATCH, PATCH), generator=torch.Generator().manual_seed(1)) * 2 - 1
    # In bfloat16's values from the start: every implementation and type sees the same numbers.
    save_file(
        {name: value.bfloat16() for name, value in random_weights(arguments.layers).items()},
        arguments.out / "weights.safetensors",
    )
    save_file({"pixels": pixels.bfloat16()}, arguments.out / "pixels.safetensors")
    (arguments.out / "grids.json").write_text(json.dumps(places))


if __name__ == "__main__":
    main()
