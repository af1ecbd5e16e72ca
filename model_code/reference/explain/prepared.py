# SPDX-License-Identifier: Apache-2.0
"""Files and a prompt as the inputs that transformers' own processors make of them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import AutoConfig, AutoTokenizer
from transformers.utils import logging as transformers_logging

from tool_errors import UsageError

from .. import prompts
from ..cases import Case
from ..families import FAMILIES, model_type, video_size
from ..inference import pixels_of
from ..media import read_image, read_video
from ..model import processed
from .item import Item, Tower, grid_of

SHOWN = 40  # characters of a text
AXES = {
    "paddleocr_vl": ("time", "row", "column"),
    "qwen2_vl": ("time", "row", "column"),
    "hunyuan_vl": ("sequence", "column", "row", "image"),
}


@dataclass(frozen=True)
class Prepared:
    """``positions`` [axes, tokens]; ``images`` are the first frames of videos; ``runs`` are the tokens of each item."""

    items: list[Item]
    images: list[np.ndarray]
    ids: list[int]
    runs: list[tuple[int, int]]
    positions: torch.Tensor
    axes: tuple[str, ...]
    tokenizer: Any

    @classmethod
    def of(cls, options: argparse.Namespace, are_videos: list[bool]) -> Prepared:
        """Raises UsageError for what is no model, no image, or no video that the family reads."""
        transformers_logging.set_verbosity_error()
        kind = model_type(options.model)
        family = FAMILIES[kind]
        if any(are_videos) and family.video is None:
            raise UsageError(f"{options.files[are_videos.index(True)]}: {family.name} reads no video")
        limits = pixels_of(options, family)
        config = AutoConfig.from_pretrained(options.model)
        tokenizer = AutoTokenizer.from_pretrained(options.model)
        read = [
            read_video(file, options.fps, options.frames)[0] if video else read_image(file)
            for file, video in zip(options.files, are_videos, strict=True)
        ]
        media = "".join(str(family.video) if video else family.image for video in are_videos)
        case = Case(prompts.Form.of(options.model).complete(media + options.prompt), [], *limits)
        for array, video in zip(read, are_videos, strict=True):
            (case.videos if video else case.images).append(array)
        if len({len(video) for video in case.videos}) > 1:
            raise UsageError("videos with different numbers of frames have different bounds; explain them one by one")
        try:
            inputs = processed(family.processor(options.model, tokenizer), case)
        except ValueError as error:
            raise UsageError(f"the processor refuses them: {error}") from error
        ids = inputs["input_ids"][0].tolist()
        places = {getattr(config, name) for name in ("image_token_id", "video_token_id") if hasattr(config, name)}
        runs = spans(ids, places)
        tower = Tower.of(config.vision_config)
        grids = {True: iter(inputs.get("video_grid_thw", ())), False: iter(inputs.get("image_grid_thw", ()))}
        items = []
        for file, video, array, run in zip(options.files, are_videos, read, runs, strict=True):
            frames = len(array) if video else 0
            size = video_size(frames, limits[1]) if video else {}
            within = (size["shortest_edge"], size["longest_edge"]) if video else limits
            items.append(
                Item(
                    file.name,
                    (array.shape[-3], array.shape[-2]),
                    frames,
                    within,
                    grid_of(next(grids[video]), file.name),
                    run[1] - run[0],
                    tower,
                )
            )
        images = [array[0] if video else array for video, array in zip(are_videos, read, strict=True)]
        return cls(items, images, ids, runs, position_ids(family, config, inputs), AXES[kind], tokenizer)

    def parts(self) -> Iterator[tuple[int, int, str]]:
        """Begin, end and text of each run of places, each special token, and each text between them."""
        special = set(self.tokenizer.all_special_ids) | set(self.tokenizer.added_tokens_decoder)
        runs = {begin: (end, item) for (begin, end), item in zip(self.runs, self.items, strict=True)}
        begin = 0
        while begin < len(self.ids):
            token = self.tokenizer.decode(self.ids[begin : begin + 1])
            if begin in runs:
                end, item = runs[begin]
                edge = int(item.has_edges)
                if edge:
                    yield begin, begin + 1, f"{token}: the image's begin"
                yield begin + edge, end - edge, f"{token} x {end - begin - 2 * edge}"
                if edge:
                    yield end - 1, end, f"{token}: the image's end"
            elif self.ids[begin] in special:
                end = begin + 1
                yield begin, end, token
            else:
                end = begin + 1
                while end < len(self.ids) and end not in runs and self.ids[end] not in special:
                    end += 1
                text = json.dumps(self.tokenizer.decode(self.ids[begin:end]), ensure_ascii=False)
                yield begin, end, text if len(text) <= SHOWN else text[:SHOWN] + "..."
            begin = end


def position_ids(family: Any, config: Any, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """Position ids of a prompt by axis, [axes, tokens] int64: those of transformers' own classes, which need no
    weights for it."""
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
