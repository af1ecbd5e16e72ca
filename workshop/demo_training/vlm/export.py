# SPDX-License-Identifier: Apache-2.0
"""Write a training checkpoint as a model folder with the published file and tensor names.

    python -m demo_training.vlm.export --checkpoint DIR/checkpoint.pt [--earlier WEIGHTS --share 0.3] --out DIR

DIR of the tracked weights is models/demo/PaddleOCR-VL.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer

from random_checkpoints.files import image_values

from . import tokenizer as tokens
from .batches import DEVIATION, MEAN
from .config import DemoConfig
from .crops import MAX_PIXELS, MIN_PIXELS
from .deepen import exported
from .model import DemoModel

CHAT_TEMPLATE = (
    "{{- '<|begin_of_sentence|>' -}}"
    "{%- for message in messages -%}"
    "{%- if message['role'] == 'user' -%}{{- 'User: ' -}}"
    "{%- if message['content'] is string -%}{{- message['content'] -}}{%- else -%}"
    "{%- for part in message['content'] if part['type'] == 'image' -%}"
    "{{- '<|IMAGE_START|><|IMAGE_PLACEHOLDER|><|IMAGE_END|>' -}}{%- endfor -%}"
    "{%- for part in message['content'] if part['type'] == 'text' -%}{{- part['text'] -}}{%- endfor -%}"
    "{%- endif -%}{{- '\\n' -}}"
    "{%- elif message['role'] == 'assistant' -%}{{- 'Assistant: ' + message['content'] + '</s>' -}}"
    "{%- endif -%}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- 'Assistant: ' -}}{%- endif -%}"
)


def model_config(c: DemoConfig, ids: dict[str, int | None]) -> dict:
    """``config.json`` with the published keys: the language model's flat, the tower's nested."""
    return {
        "architectures": ["PaddleOCRVLForConditionalGeneration"],
        "model_type": "paddleocr_vl",
        "torch_dtype": "bfloat16",
        "vocab_size": c.vocab_size,
        "hidden_size": c.text_hidden,
        "intermediate_size": c.text_intermediate,
        "num_hidden_layers": c.text_layers,
        "num_attention_heads": c.text_heads,
        "num_key_value_heads": c.text_kv_heads,
        "head_dim": c.head_dim,
        "hidden_act": "silu",
        "max_position_embeddings": 131072,
        "rms_norm_eps": 1e-5,
        "rope_theta": c.rope_theta,
        "rope_scaling": {"mrope_section": list(c.mrope_section), "rope_type": "default", "type": "default"},
        "use_bias": False,
        "use_cache": True,
        "tie_word_embeddings": False,
        "pad_token_id": ids[tokens.UNKNOWN],
        "bos_token_id": ids[tokens.BOS],
        "eos_token_id": ids[tokens.EOS],
        "image_token_id": ids[tokens.IMAGE],
        "video_token_id": ids[tokens.VIDEO],
        "vision_start_token_id": ids[tokens.IMAGE_START],
        "vision_end_token_id": ids[tokens.IMAGE_END],
        "vision_config": {
            "model_type": "paddleocr_vl",
            "hidden_size": c.vision_hidden,
            "intermediate_size": c.vision_intermediate,
            "num_hidden_layers": c.vision_layers,
            "num_attention_heads": c.vision_heads,
            "num_channels": 3,
            "image_size": c.image_size,
            "patch_size": c.patch,
            "spatial_merge_size": c.merge,
            "temporal_patch_size": 2,
            "hidden_act": "gelu_pytorch_tanh",
            "layer_norm_eps": 1e-6,
            "attention_dropout": 0.0,
            "tokens_per_second": 2,
        },
    }


def tokenizer_config() -> dict:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "processor_class": "PaddleOCRVLProcessor",
        "bos_token": tokens.BOS,
        "eos_token": tokens.EOS,
        "unk_token": tokens.UNKNOWN,
        "pad_token": tokens.UNKNOWN,
        "cls_token": tokens.BEGIN,
        "extra_special_tokens": {"image_token": tokens.IMAGE},
        "clean_up_tokenization_spaces": False,
        "model_max_length": 131072,
    }


def mean(state: dict[str, torch.Tensor], earlier: dict[str, torch.Tensor], share: float) -> dict[str, torch.Tensor]:
    """Weights between those of two checkpoints of one training, ``share`` of the earlier one: what one of the two
    loses, the mean seldom does (decision 0301)."""
    return {name: share * earlier[name] + (1 - share) * value for name, value in state.items()}


def export(checkpoint: Path, out: Path, earlier: Path | None = None, share: float = 0.0) -> None:
    """Write the model folder ``out`` from ``checkpoint`` and the tokenizer beside it; weights become bfloat16. With
    ``earlier``, a checkpoint of the same training or the folder of a model that it began with, ``share`` of its weights
    goes into a mean of both."""
    state = torch.load(checkpoint, weights_only=True)
    config = DemoConfig(**state["config"])
    if earlier:
        before = exported(earlier, config) if earlier.is_dir() else torch.load(earlier, weights_only=True)["model"]
        state["model"] = mean(state["model"], before, share)
    model = DemoModel(config)
    model.load_state_dict(state["model"])
    tokenizer = Tokenizer.from_file(str(checkpoint.parent / "tokenizer.json"))
    ids = {token: tokenizer.token_to_id(token) for token in tokens.SPECIAL}
    out.mkdir(parents=True, exist_ok=True)
    weights = {name: value.to(torch.bfloat16).contiguous() for name, value in model.state_dict().items()}
    # The published checkpoint carries the output matrix apart, so this one does too.
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"].clone()
    save_file(weights, out / "model.safetensors", metadata={"format": "pt"})
    # safetensors writes for the owner alone; the services run as others.
    (out / "model.safetensors").chmod(0o644)
    documents = {
        "config.json": model_config(config, ids),
        "generation_config.json": {
            "bos_token_id": ids[tokens.BOS],
            "eos_token_id": ids[tokens.EOS],
            "pad_token_id": ids[tokens.UNKNOWN],
        },
        "preprocessor_config.json": image_values(
            (MIN_PIXELS, MAX_PIXELS), MEAN.flatten().tolist(), DEVIATION.flatten().tolist()
        ),
        "processor_config.json": {"processor_class": "PaddleOCRVLProcessor"},
        "tokenizer_config.json": tokenizer_config(),
    }
    for name, document in documents.items():
        (out / name).write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    shutil.copyfile(checkpoint.parent / "tokenizer.json", out / "tokenizer.json")
    (out / "chat_template.jinja").write_text(CHAT_TEMPLATE + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument(
        "--earlier",
        type=Path,
        metavar="WEIGHTS",
        help="take a mean with this checkpoint of the same training, or with this folder of the model it began with",
    )
    parser.add_argument(
        "--share", type=float, default=0.3, help="of the earlier weights in the mean (default %(default)s)"
    )
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    export(arguments.checkpoint, arguments.out, arguments.earlier, arguments.share)


if __name__ == "__main__":
    main()
