# SPDX-License-Identifier: Apache-2.0
"""A checkpoint of random weights, saved by transformers >= 5, for comparing implementations.

    python -m random_checkpoints.make --out DIR --vision-layers 2 --text-layers 2 [--small] [--seed 0]
        [--outliers] [--family paddleocr_vl|qwen2_vl|hunyuan_vl]

Layer shapes are the published ones (transformers' defaults) unless --small is given. --outliers makes some weights
large, as trained models have them (PaddleOCR-VL). Its tokenizer is byte-level without merges. Qwen2-VL and HunyuanOCR
are in families.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from transformers import PaddleOCRVLConfig, PaddleOCRVLForConditionalGeneration

from .families import FAMILIES, stir
from .files import image_values, save_tokenizer

SMALL_VISION = {"hidden_size": 96, "intermediate_size": 256, "num_attention_heads": 4}
SMALL_TEXT = {
    "vocab_size": 320,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "max_position_embeddings": 16384,
}


@torch.no_grad()
def plant_outliers(model: torch.nn.Module) -> None:
    """Make 0.5 % of the features of each norm 15 times as large, and 0.01 % of the weights of each linear layer 12
    times."""
    for module in model.modules():
        weight = getattr(module, "weight", None)
        if isinstance(module, torch.nn.Linear):
            module.weight[torch.rand_like(module.weight) < 0.0001] *= 12
        elif isinstance(weight, torch.nn.Parameter) and weight.dim() == 1:
            weight[torch.rand_like(weight) < 0.005] *= 15


def save_checkpoint(
    directory: Path, vision_layers: int, text_layers: int, small: bool, seed: int, outliers: bool = False
) -> None:
    """Write model, tokenizer and image processor values to ``directory``."""
    directory.mkdir(parents=True, exist_ok=True)
    ids = save_tokenizer(directory)
    section = (8, 12, 12) if small else (16, 24, 24)
    text = {
        **(SMALL_TEXT if small else {}),
        "num_hidden_layers": text_layers,
        "pad_token_id": ids["<unk>"],
        "bos_token_id": ids["<s>"],
        "eos_token_id": ids["</s>"],
        "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0, "mrope_section": list(section)},
    }
    config = PaddleOCRVLConfig(
        vision_config={**(SMALL_VISION if small else {}), "num_hidden_layers": vision_layers},
        text_config=text,
        image_token_id=ids["<|IMAGE_PLACEHOLDER|>"],
        video_token_id=ids["<unk>"],
        vision_start_token_id=ids["<|IMAGE_START|>"],
        vision_end_token_id=ids["<|IMAGE_END|>"],
    )
    torch.manual_seed(seed)
    model = PaddleOCRVLForConditionalGeneration(config)
    stir(model)
    if outliers:
        plant_outliers(model)
    model.save_pretrained(directory)
    (directory / "preprocessor_config.json").write_text(json.dumps(image_values()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--vision-layers", type=int, default=2)
    parser.add_argument("--text-layers", type=int, default=2)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--family", choices=("paddleocr_vl", *FAMILIES), default="paddleocr_vl")
    parser.add_argument("--outliers", action="store_true")
    arguments = parser.parse_args()
    sizes = (arguments.out, arguments.vision_layers, arguments.text_layers, arguments.small, arguments.seed)
    if family := FAMILIES.get(arguments.family):
        if arguments.outliers:
            parser.error("--outliers: only PaddleOCR-VL has them")
        family(*sizes)
    else:
        save_checkpoint(*sizes, arguments.outliers)


if __name__ == "__main__":
    main()
