# SPDX-License-Identifier: Apache-2.0
"""Cases: the prompts and images that each side is asked, also as safetensors files for other processes.

The plugin runs in an environment of its own (vLLM 0.11.1 needs transformers < 5), each device that is timed in a
process of its own. Needs numpy and safetensors only.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file


@dataclass
class Case:
    """One prompt with its images and videos.

    ``prompt`` is complete, with the family's place for each of ``images`` ([height, width, 3] uint8) and ``videos``
    ([frames, height, width, 3] uint8, the frames that the model sees). ``answer`` is what follows it, as token ids:
    text alone might be cut into other tokens.
    """

    prompt: str
    images: list[np.ndarray] = field(default_factory=list)
    min_pixels: int = 112896
    max_pixels: int = 1003520
    answer: list[int] = field(default_factory=list)
    videos: list[np.ndarray] = field(default_factory=list)

    def with_lines_of(self, pixels: int) -> Case:
        """The case of one image as the parser asks it with PARSER_LINE_PIXELS."""
        from print_size import fitted  # it needs Pillow, which nothing else here does

        (image,) = self.images
        fit = fitted(image, pixels, self.min_pixels, self.max_pixels)
        if fit is None:
            return self
        return replace(self, images=[fit], min_pixels=min(self.min_pixels, fit.shape[0] * fit.shape[1]))


def save_cases(path: Path, cases: list[Case]) -> None:
    """Write the cases to one safetensors file."""
    arrays = {
        f"{i}.{kind}{j}": np.ascontiguousarray(item)
        for i, case in enumerate(cases)
        for kind, items in (("", case.images), ("v", case.videos))
        for j, item in enumerate(items)
    }
    texts = [{**vars(case), "images": len(case.images), "videos": len(case.videos)} for case in cases]
    save_file(arrays or {"none": np.zeros(1, np.uint8)}, path, metadata={"cases": json.dumps(texts)})


def load_cases(path: Path) -> list[Case]:
    """Read what :func:`save_cases` wrote."""
    with safe_open(path, "numpy") as file:
        texts = json.loads(file.metadata()["cases"])
        for i, text in enumerate(texts):
            text["images"] = [file.get_tensor(f"{i}.{j}") for j in range(text["images"])]
            text["videos"] = [file.get_tensor(f"{i}.v{j}") for j in range(text["videos"])]
    return [Case(**text) for text in texts]
