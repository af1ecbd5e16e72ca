# SPDX-License-Identifier: Apache-2.0
"""Random checkpoints of Qwen2-VL and HunyuanOCR, with the names and keys of the published files.

Layers are the published ones, or small ones: of those, the widths that config/models.yaml tells sizes apart by and
those of the heads in the language model are the published ones.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tokenizers import pre_tokenizers
from torch import nn
from transformers import (
    HunYuanVLConfig,
    HunYuanVLForConditionalGeneration,
    Qwen2VLConfig,
    Qwen2VLForConditionalGeneration,
)

from .files import save_byte_tokenizer

CLIP_MEAN, CLIP_STD = [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]
# Their order is that of their ids in the published vocabularies.
QWEN2_VL = (
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>"),
    *("<|image_pad|>", "<|video_pad|>"),
)
HUNYUAN = {
    120000: "<｜hy_begin▁of▁sentence｜>",
    120002: "<｜hy_▁pad▁｜>",
    120006: "<｜hy_User｜>",
    120007: "<｜hy_Assistant｜>",
    120021: "<｜hy_place▁holder▁no▁3｜>",
    120118: "<｜hy_place▁holder▁no▁100｜>",
    120119: "<｜hy_place▁holder▁no▁101｜>",
    120120: "<｜hy_place▁holder▁no▁102｜>",
    120121: "<｜hy_place▁holder▁no▁103｜>",
}
HUNYUAN_VOCABULARY = 120818
# Widths of the published layers.
QWEN2_VL_VISION = {"embed_dim": 1280, "num_heads": 16, "mlp_ratio": 4}
HUNYUAN_TEXT = {"hidden_size": 1024, "intermediate_size": 3584, "num_attention_heads": 16, "num_key_value_heads": 8}
HUNYUAN_VISION = {"hidden_size": 1152, "intermediate_size": 4304, "num_attention_heads": 16}
SMALL_HUNYUAN_TEXT = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2}
SMALL_HUNYUAN_VISION = {"hidden_size": 96, "intermediate_size": 192, "num_attention_heads": 4}


def stir(model: nn.Module) -> None:
    """Fresh norms are one and biases zero: an implementation that ignored them would agree."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.randn_like(parameter) * 0.05)


def save_image_values(directory: Path, **values: object) -> None:
    common = {"do_convert_rgb": True, "image_mean": CLIP_MEAN, "image_std": CLIP_STD, "merge_size": 2}
    (directory / "preprocessor_config.json").write_text(json.dumps({**common, **values}))


def save_qwen2_vl(directory: Path, vision_layers: int, text_layers: int, small: bool, seed: int) -> None:
    """Qwen2-VL-2B-Instruct with a vocabulary of bytes; small ones are narrower inside of their layers."""
    directory.mkdir(parents=True, exist_ok=True)
    names = [*QWEN2_VL, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    ids = {name: index for index, name in enumerate(names)}
    save_byte_tokenizer(
        directory, ids, list(QWEN2_VL), {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "bos_token": None}
    )
    text = {
        "vocab_size": 320,
        "hidden_size": 1536,
        "intermediate_size": 256 if small else 8960,
        "num_hidden_layers": text_layers,
        "num_attention_heads": 12,
        "num_key_value_heads": 2,
        "max_position_embeddings": 32768,
        "bos_token_id": ids["<|endoftext|>"],
        "eos_token_id": ids["<|im_end|>"],
        "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0, "mrope_section": [16, 24, 24]},
        # As in 7B. Tied, a random model says its last token again and again.
        "tie_word_embeddings": False,
    }
    widths = {"embed_dim": 128, "num_heads": 4, "mlp_ratio": 2} if small else QWEN2_VL_VISION
    vision = {"depth": vision_layers, "hidden_size": 1536, **widths}
    tokens = {
        "image_token_id": ids["<|image_pad|>"],
        "video_token_id": ids["<|video_pad|>"],
        "vision_start_token_id": ids["<|vision_start|>"],
        "vision_end_token_id": ids["<|vision_end|>"],
    }
    sections: dict[str, Any] = {"text_config": text, "vision_config": vision, **tokens}
    config: Any = Qwen2VLConfig(tie_word_embeddings=False, **sections)
    torch.manual_seed(seed)
    model = Qwen2VLForConditionalGeneration(config)
    stir(model)
    model.save_pretrained(directory)
    # As published: the language model's keys at the top, and the rotation's under its former name.
    flat = {key: value for key, value in text.items() if key != "rope_parameters"}
    scaling = {"rope_theta": 1000000.0, "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}}
    document = {
        "architectures": ["Qwen2VLForConditionalGeneration"],
        "model_type": "qwen2_vl",
        "torch_dtype": "float32",
        "hidden_act": "silu",
        "rms_norm_eps": config.text_config.rms_norm_eps,
        **flat,
        **scaling,
        **tokens,
        "vision_config": {**vision, "in_chans": 3, "patch_size": 14, "spatial_merge_size": 2, "temporal_patch_size": 2},
    }
    (directory / "config.json").write_text(json.dumps(document))
    save_image_values(
        directory,
        image_processor_type="Qwen2VLImageProcessor",
        processor_class="Qwen2VLProcessor",
        min_pixels=3136,
        max_pixels=12845056,
        patch_size=14,
        temporal_patch_size=2,
    )


def save_hunyuan_vl(directory: Path, vision_layers: int, text_layers: int, small: bool, seed: int) -> None:
    """HunyuanOCR with the published ids of its special tokens; small ones are narrower inside of their layers."""
    directory.mkdir(parents=True, exist_ok=True)
    names = [f"<unused {index}>" for index in range(HUNYUAN_VOCABULARY)]
    for index, name in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet())):
        names[index] = name
    for index, name in HUNYUAN.items():
        names[index] = name
    images = dict(
        zip(("image_start_token", "image_end_token", "image_token"), list(HUNYUAN.values())[-4:-1], strict=True)
    )
    options = {
        "bos_token": HUNYUAN[120000],
        "eos_token": HUNYUAN[120007],
        "pad_token": HUNYUAN[120002],
        "extra_special_tokens": images,
    }
    vocabulary = {name: index for index, name in enumerate(names)}
    save_byte_tokenizer(directory, vocabulary, list(HUNYUAN.values()), options)
    text = {
        "vocab_size": HUNYUAN_VOCABULARY,
        **(SMALL_HUNYUAN_TEXT if small else HUNYUAN_TEXT),
        "num_hidden_layers": text_layers,
        "head_dim": 128,
        "max_position_embeddings": 32768,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "use_qk_norm": True,
        "tie_word_embeddings": True,
        "bos_token_id": 120000,
        "eos_token_id": 120007,
        "pad_token_id": 120002,
        "attention_bias": False,
    }
    scaling = {"type": "xdrope", "alpha": 1000.0, "factor": 1.0, "xdrope_section": [16, 16, 16, 16]}
    scaling |= {"beta_fast": 32, "beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 1.0}
    vision = {
        **(SMALL_HUNYUAN_VISION if small else HUNYUAN_VISION),
        "num_hidden_layers": vision_layers,
        "out_hidden_size": text["hidden_size"],
        "text_hidden_size": text["hidden_size"],
        "patch_size": 16,
        "spatial_merge_size": 2,
        "temporal_patch_size": 1,
    }
    ids = {"im_start_id": 120118, "im_end_id": 120119, "image_token_id": 120120, "im_newline_id": 120121}
    document = {
        "architectures": ["HunYuanVLForConditionalGeneration"],
        "model_type": "hunyuan_vl",
        "torch_dtype": "float32",
        "hidden_act": "silu",
        **text,
        "rope_scaling": scaling,
        "vision_config": vision,
        **ids,
        "image_start_token_id": 120118,
        "image_end_token_id": 120119,
        "image_newline_token_id": 120121,
    }
    (directory / "config.json").write_text(json.dumps(document))
    config = HunYuanVLConfig.from_pretrained(directory)
    torch.manual_seed(seed)
    model = HunYuanVLForConditionalGeneration(config)
    stir(model)
    model.save_pretrained(directory)
    (directory / "config.json").write_text(json.dumps(document))
    save_image_values(
        directory,
        image_processor_type="HunYuanVLImageProcessor",
        processor_class="HunYuanVLProcessor",
        min_pixels=262144,
        max_pixels=4194304,
        patch_size=16,
        temporal_patch_size=1,
        resample=1,
    )


FAMILIES: dict[str, Callable[[Path, int, int, bool, int], None]] = {
    "qwen2_vl": save_qwen2_vl,
    "hunyuan_vl": save_hunyuan_vl,
}
