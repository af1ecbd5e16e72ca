# SPDX-License-Identifier: Apache-2.0
"""Batches of drawn crops as tensors, made in a process of their own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from . import tokenizer as tokens
from .crops import IGNORE, CropBatch, CropMaker, Stage
from .stages import stage_at

MEAN = torch.tensor([0.48145466, 0.4578275, 0.40821073]).view(1, 3, 1, 1)
DEVIATION = torch.tensor([0.26862954, 0.26130258, 0.27577711]).view(1, 3, 1, 1)


def normalise(pixels: torch.Tensor) -> torch.Tensor:
    """uint8 [B, H, W, 3] -> float32 [B, 3, H, W] as the image processor leaves it."""
    return (pixels.permute(0, 3, 1, 2).float() / 255 - MEAN) / DEVIATION


def tensors(batch: CropBatch, tail: list[int]) -> dict[str, torch.Tensor]:
    """Pad the token lists: ``after`` [B, T] is prompt tail and text, ``targets`` and ``cells`` belong to it."""
    longest = max(len(ids) for ids in batch.tokens)
    count, start = len(batch.tokens), len(tail)
    after = torch.zeros(count, start + longest, dtype=torch.long)
    targets = torch.full((count, start + longest), IGNORE)
    cells = torch.full((count, start + longest, 2), IGNORE)
    for row, (ids, places) in enumerate(zip(batch.tokens, batch.cells)):
        after[row, : start + len(ids)] = torch.tensor(tail + ids)
        targets[row, start - 1 : start + len(ids)] = torch.tensor(ids + [2])
        cells[row, start - 1 : start - 1 + len(ids)] = torch.tensor(places)
    return {
        "pixels": torch.from_numpy(batch.pixels),
        "glyph": torch.from_numpy(batch.glyph),
        "context": torch.from_numpy(batch.context),
        "line": torch.from_numpy(batch.line),
        "after": after,
        "targets": targets,
        "cells": cells,
    }


def produce(
    queue: Any, tokenizer_json: str, seed: int, schedule: list[Stage], start: int, shelf: Path | None = None
) -> None:
    """Put the batches of every step from ``start`` on into the queue, as arrays."""
    os.nice(1)
    torch.set_num_threads(1)
    tokenizer = Tokenizer.from_str(tokenizer_json)
    _, tail = tokens.prompt_ids(tokenizer)
    maker = CropMaker(tokenizer, seed, shelf=shelf)
    for step in range(start, sum(stage.steps for stage in schedule)):
        stage = stage_at(schedule, step)
        for _ in range(stage.batches):
            queue.put({name: value.numpy() for name, value in tensors(maker.batch(stage), tail).items()})
