# SPDX-License-Identifier: Apache-2.0
"""Typefaces of the demo pages, found where Debian's font packages put them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from PIL import ImageFont

FONT_ROOT = Path("/usr/share/fonts/truetype")


@dataclass(frozen=True)
class Face:
    """One font file. ``x_height`` is in em, measured from the glyph ``x``."""

    name: str
    file: str
    bold: bool
    core: bool

    @property
    def path(self) -> Path:
        return FONT_ROOT / self.file

    def at(self, size: int) -> ImageFont.FreeTypeFont:
        """The face at ``size`` px per em."""
        return _load(str(self.path), size)

    @property
    def x_height(self) -> float:
        return _x_height(str(self.path))


FACES = (
    Face("DejaVu Sans", "dejavu/DejaVuSans.ttf", False, True),
    Face("DejaVu Sans", "dejavu/DejaVuSans-Bold.ttf", True, True),
    Face("Liberation Sans", "liberation/LiberationSans-Regular.ttf", False, True),
    Face("Liberation Sans", "liberation/LiberationSans-Bold.ttf", True, True),
    Face("Liberation Serif", "liberation/LiberationSerif-Regular.ttf", False, True),
    Face("Liberation Serif", "liberation/LiberationSerif-Bold.ttf", True, True),
    Face("DejaVu Sans Mono", "dejavu/DejaVuSansMono.ttf", False, False),
    Face("Liberation Mono", "liberation/LiberationMono-Regular.ttf", False, False),
    Face("DejaVu Serif", "dejavu/DejaVuSerif.ttf", False, False),
)
CORE = tuple(face for face in FACES if face.core)
WIDER = tuple(face for face in FACES if not face.core)


@lru_cache(maxsize=1024)
def _load(path: str, size: int) -> ImageFont.FreeTypeFont:
    try:
        # Basic layout: glyph advances add up, so ground-truth positions are exact.
        return ImageFont.truetype(path, size, layout_engine=ImageFont.Layout.BASIC)
    except OSError as error:
        raise FileNotFoundError(
            f"font file {path} not found; install it with: apt-get install fonts-dejavu-core "
            "fonts-dejavu-extra fonts-liberation"
        ) from error


@lru_cache(maxsize=None)
def _x_height(path: str) -> float:
    left, top, right, bottom = _load(path, 1000).getbbox("x", anchor="ls")
    return (bottom - top) / 1000
