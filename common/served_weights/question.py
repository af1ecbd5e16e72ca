# SPDX-License-Identifier: Apache-2.0
"""A question about an image, in the form that a model was trained on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tool_errors import UsageError

from .identity import PIXELS

KEYS = ("prompt", "pixels")


@dataclass(frozen=True)
class Question:
    """The words behind the image, and the least and most pixels that it gets."""

    prompt: str
    min_pixels: int
    max_pixels: int

    @classmethod
    def from_entry(cls, entry: Mapping[Any, Any], where: str) -> Question:
        """From a mapping with ``prompt`` and ``pixels``. Raises UsageError that names the key under ``where``."""
        for key in entry:
            if key not in KEYS:
                raise UsageError(f"{where} has the unknown key {key!r}; expected {', '.join(KEYS)}")
        prompt, pixels = entry.get("prompt"), entry.get("pixels")
        if not isinstance(prompt, str) or not prompt.strip():
            raise UsageError(f"{where}.prompt is {prompt!r}; expected a text")
        bounds = PIXELS.fullmatch(pixels) if isinstance(pixels, str) else None
        if bounds is None or not 0 < int(bounds[1]) <= int(bounds[2]):
            raise UsageError(f"{where}.pixels is {pixels!r}; expected a text like '112896 to 1003520'")
        return cls(prompt, int(bounds[1]), int(bounds[2]))

    def as_entry(self) -> dict[str, str]:
        """The mapping that ``from_entry`` reads."""
        return {"prompt": self.prompt, "pixels": f"{self.min_pixels} to {self.max_pixels}"}
