# SPDX-License-Identifier: Apache-2.0
"""A model folder of the published 0.9B shapes: configuration, tokenizer, image processor values; weights on request.

    python -m model_bench.checkpoint --out DIR [--text-layers 18] [--vision-layers 27] [--weights]

Without --weights its file of weights is empty, and vLLM serves it with `--load-format dummy`. The tokenizer is
byte-level. Words that no text holds fill it up to the published vocabulary, so that every token that a model may choose
has a text. Names and nesting of keys are the published checkpoint's (arXiv 2510.14528; its config.json).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from random_checkpoints.files import image_values, save_tokenizer

from .crops import MAX_PIXELS, MERGE, MIN_PIXELS, PATCH
from .inputs import HEADS, HIDDEN, INTERMEDIATE, TEXT, random_weights

UNUSED_TABLE = "visual.vision_model.embeddings.packing_position_embedding.weight"
# Of the language model: tokens, features inside the MLP, heads of queries, of keys and values, features of a head.
VOCABULARY, TEXT_INTERMEDIATE, TEXT_HEADS, TEXT_SHARED_HEADS, TEXT_HEAD_DIM = 103424, 3072, 16, 2, 128
LANGUAGE = {
    "vocab_size": VOCABULARY,
    "hidden_size": TEXT,
    "intermediate_size": TEXT_INTERMEDIATE,
    "num_attention_heads": TEXT_HEADS,
    "num_key_value_heads": TEXT_SHARED_HEADS,
    "head_dim": TEXT_HEAD_DIM,
    "hidden_act": "silu",
    "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0,
    "use_bias": False,
    "rope_scaling": {"mrope_section": [16, 24, 24], "rope_type": "default", "type": "default"},
}
VISION = {
    "model_type": "paddleocr_vl",
    "hidden_size": HIDDEN,
    "intermediate_size": INTERMEDIATE,
    "num_attention_heads": HEADS,
    "num_channels": 3,
    "image_size": 384,
    "patch_size": PATCH,
    "spatial_merge_size": MERGE,
    "temporal_patch_size": 2,
    "hidden_act": "gelu_pytorch_tanh",
    "layer_norm_eps": 1e-6,
    "attention_dropout": 0.0,
    "tokens_per_second": 2,
}


def config(ids: dict[str, int], text_layers: int, vision_layers: int) -> dict[str, Any]:
    """config.json, flat as published."""
    return {
        "architectures": ["PaddleOCRVLForConditionalGeneration"],
        "model_type": "paddleocr_vl",
        "torch_dtype": "bfloat16",
        **LANGUAGE,
        "num_hidden_layers": text_layers,
        "use_cache": True,
        "tie_word_embeddings": False,
        "pad_token_id": ids["<unk>"],
        "bos_token_id": ids["<s>"],
        "eos_token_id": ids["</s>"],
        "image_token_id": ids["<|IMAGE_PLACEHOLDER|>"],
        "video_token_id": ids["<unk>"],
        "vision_start_token_id": ids["<|IMAGE_START|>"],
        "vision_end_token_id": ids["<|IMAGE_END|>"],
        # llama.cpp's converter finds the tower by its architecture.
        "vision_config": {"architectures": ["PaddleOCRVisionModel"], **VISION, "num_hidden_layers": vision_layers},
    }


def language_weights(layers: int, seed: int = 1) -> dict[str, Tensor]:
    """Random weights of the language model under the published names: norms near one, matrices that keep the size
    of their input; bfloat16."""
    generator = torch.Generator().manual_seed(seed)
    hidden, inner = TEXT, TEXT_INTERMEDIATE
    heads, shared = TEXT_HEADS * TEXT_HEAD_DIM, TEXT_SHARED_HEADS * TEXT_HEAD_DIM
    shapes: dict[str, tuple[int, ...]] = {}
    for layer in range(layers):
        at = f"model.layers.{layer}."
        shapes |= {f"{at}input_layernorm": (hidden,), f"{at}post_attention_layernorm": (hidden,)}
        shapes |= {
            f"{at}self_attn.{name}_proj": (rows, hidden) for name, rows in (("q", heads), ("k", shared), ("v", shared))
        }
        shapes |= {
            f"{at}self_attn.o_proj": (hidden, heads),
            f"{at}mlp.gate_proj": (inner, hidden),
            f"{at}mlp.up_proj": (inner, hidden),
            f"{at}mlp.down_proj": (hidden, inner),
        }
    words = (VOCABULARY, hidden)
    shapes |= {"model.embed_tokens": words, "model.norm": (hidden,), "lm_head": words}

    def values(name: str, shape: tuple[int, ...]) -> Tensor:
        drawn = torch.randn(shape, generator=generator)
        if len(shape) == 1:
            return 1 + 0.1 * drawn
        return drawn if name == "model.embed_tokens" else drawn / shape[-1] ** 0.5

    return {f"{name}.weight": values(name, shape).bfloat16() for name, shape in shapes.items()}


def write(folder: Path, text_layers: int, vision_layers: int, weights: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    ids = save_tokenizer(folder, VOCABULARY)
    (folder / "config.json").write_text(json.dumps(config(ids, text_layers, vision_layers), indent=1))
    (folder / "preprocessor_config.json").write_text(json.dumps(image_values((MIN_PIXELS, MAX_PIXELS))))
    (folder / "processor_config.json").write_text(json.dumps({"processor_class": "PaddleOCRVLProcessor"}))
    # The launcher asks for a file of weights, also where none are read.
    tensors: dict[str, Tensor] = {}
    if weights:
        vision = {name: value.bfloat16() for name, value in random_weights(vision_layers).items()}
        # In the published file, and asked for by vLLM's own model; nobody computes with it.
        vision[UNUSED_TABLE] = torch.zeros(1 << 15, HIDDEN, dtype=torch.bfloat16)
        tensors = {**language_weights(text_layers), **vision}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--text-layers", type=int, default=18)
    parser.add_argument("--vision-layers", type=int, default=27)
    parser.add_argument("--weights", action="store_true", help="random weights too (1.8 GB at full depth)")
    arguments = parser.parse_args()
    write(arguments.out, arguments.text_layers, arguments.vision_layers, arguments.weights)


if __name__ == "__main__":
    main()
