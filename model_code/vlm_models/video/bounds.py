# SPDX-License-Identifier: Apache-2.0
"""What a video may cost: config/models.yaml, `media-io-kwargs: {video: ...}` of an entry that takes video."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True)
class VideoBounds:
    """``fps`` are the frames of a second that the model sees, ``frames`` how many in all; ``seconds`` and ``megabytes``
    bound the file, ``megapixels`` the chosen frames together, of which there are fewer where they are large, and
    ``patience`` (seconds) its decoding."""

    fps: float = 2.0
    frames: int = 128
    seconds: float = 600
    megabytes: float = 64
    megapixels: float = 100
    patience: int = 60

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> VideoBounds:
        """Raises ValueError for a key that is not known, or a value that is no positive number."""
        known = {field.name for field in fields(cls)}
        for key, value in options.items():
            if key not in known:
                raise ValueError(f"--media-io-kwargs video: unknown key {key!r}; expected {', '.join(sorted(known))}")
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
                raise ValueError(f"--media-io-kwargs video.{key}: {value!r} is no positive number")
        return cls(**options)
