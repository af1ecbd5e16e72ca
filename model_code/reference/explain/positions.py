# SPDX-License-Identifier: Apache-2.0
"""Position ids of a prompt by axis: those of transformers' own classes, which need no weights for it."""

from __future__ import annotations

from typing import Any

import torch

AXES = {
    "paddleocr_vl": ("time", "row", "column"),
    "qwen2_vl": ("time", "row", "column"),
    "hunyuan_vl": ("sequence", "column", "row", "image"),
}


def position_ids(family: Any, config: Any, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """[axes, tokens] int64."""
    with torch.device("meta"):
        model = family.model()(config)
    names = ("mm_token_type_ids", "image_grid_thw", "video_grid_thw", "attention_mask")
    options = {name: inputs[name] for name in names if name in inputs}
    if not {"image_grid_thw", "video_grid_thw"} & options.keys():
        return torch.arange(inputs["input_ids"].shape[1]).expand(len(AXES[config.model_type]), -1)
    found, _ = model.model.get_rope_index(inputs["input_ids"], **options)
    return found[:, 0]


def spans(ids: list[int], places: set[int]) -> list[tuple[int, int]]:
    """Begin and end of each run of tokens that stand for an image or video."""
    found: list[tuple[int, int]] = []
    for index, token in enumerate(ids):
        if token in places:
            if found and found[-1][1] == index and ids[index - 1] == token:
                found[-1] = (found[-1][0], index + 1)
            else:
                found.append((index, index + 1))
    return found
