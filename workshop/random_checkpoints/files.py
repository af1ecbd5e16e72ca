# SPDX-License-Identifier: Apache-2.0
"""Files of a checkpoint beside its weights, for those that are made here: byte-level tokenizers, and the published
values of PaddleOCR-VL's image processor."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

SPECIAL = ("<unk>", "<s>", "</s>", "<|begin_of_sentence|>")
IMAGE_TOKENS = ("<|IMAGE_START|>", "<|IMAGE_PLACEHOLDER|>", "<|IMAGE_END|>")
CENTRE = (0.5, 0.5, 0.5)


def save_byte_tokenizer(
    directory: Path, vocabulary: dict[str, int], special: Sequence[str], options: dict[str, Any]
) -> None:
    """A tokenizer without merges; ``options`` go into tokenizer_config.json."""
    tokenizer = Tokenizer(models.BPE(vocabulary, [], unk_token=special[0]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(special))
    tokenizer.save(str(directory / "tokenizer.json"))
    document = {"tokenizer_class": "PreTrainedTokenizerFast", **options}
    (directory / "tokenizer_config.json").write_text(json.dumps(document))


def save_tokenizer(directory: Path, size: int = 0) -> dict[str, int]:
    """PaddleOCR-VL's special tokens, all bytes, and words that no text holds up to ``size`` tokens; returns the id of
    each special token."""
    special = [*SPECIAL, *IMAGE_TOKENS]
    known = [*special, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    known += [f"word{number}" for number in range(size - len(known))]
    vocabulary = {token: index for index, token in enumerate(known)}
    names = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<unk>"}
    images = {"extra_special_tokens": {"image_token": IMAGE_TOKENS[1]}}
    save_byte_tokenizer(directory, vocabulary, special, {**names, **images})
    return {token: vocabulary[token] for token in special}


def image_values(
    pixels: tuple[int, int] = (112896, 1003520), mean: Sequence[float] = CENTRE, deviation: Sequence[float] = CENTRE
) -> dict[str, Any]:
    """preprocessor_config.json of PaddleOCR-VL. ``pixels``: least and most of an image; ``mean`` and ``deviation`` of
    red, green and blue, 0 to 1."""
    return {
        "image_processor_type": "PaddleOCRVLImageProcessor",
        "processor_class": "PaddleOCRVLProcessor",
        "do_convert_rgb": True,
        "do_resize": True,
        "do_rescale": True,
        "do_normalize": True,
        "resample": 3,
        "rescale_factor": 1 / 255,
        "image_mean": list(mean),
        "image_std": list(deviation),
        "min_pixels": pixels[0],
        "max_pixels": pixels[1],
        "patch_size": 14,
        "temporal_patch_size": 1,
        "merge_size": 2,
    }
