# SPDX-License-Identifier: Apache-2.0
"""Logits as files: what each side computed for each case, on disk so that neither model nor logits stay in memory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file


@dataclass(frozen=True)
class Result:
    """``input_ids`` [n] and ``logits`` [n, vocabulary] of one case."""

    input_ids: torch.Tensor
    logits: torch.Tensor


@dataclass(frozen=True)
class Results:
    """The results of one side. A case's are in a file of its own, or all are in one, as the plugin writes them."""

    folder: Path
    side: str

    @property
    def whole(self) -> Path:
        return self.folder / f"{self.side}.safetensors"

    def save(self, number: int, tensors: dict[str, torch.Tensor]) -> None:
        named = {f"{number}.{name}": tensors[name].contiguous() for name in ("input_ids", "logits")}
        save_file(named, self.folder / f"{self.side}-{number}.safetensors")

    def load(self, number: int) -> Result:
        own = self.folder / f"{self.side}-{number}.safetensors"
        with safe_open(own if own.is_file() else self.whole, "pt") as file:
            return Result(file.get_tensor(f"{number}.input_ids"), file.get_tensor(f"{number}.logits"))
