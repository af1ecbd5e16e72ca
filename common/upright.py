# SPDX-License-Identifier: Apache-2.0
"""How a picture of Pillow's stands upright. It needs no Pillow itself."""

from __future__ import annotations

import contextlib
from typing import Any, TypeVar

Image = TypeVar("Image", bound=Any)  # Pillow's

ORIENTATION = 0x0112  # EXIF's tag, and TIFF's
ON_ITS_SIDE = (5, 6, 7, 8)  # orientations
# Pillow's number of the transposition that turns an orientation's pixels upright.
TURNS = {
    2: 0,  # FLIP_LEFT_RIGHT
    3: 3,  # ROTATE_180
    4: 1,  # FLIP_TOP_BOTTOM
    5: 5,  # TRANSPOSE
    6: 4,  # ROTATE_270
    7: 6,  # TRANSVERSE
    8: 2,  # ROTATE_90
}


def orientation(image: Any) -> int:
    """A loaded picture's, as its EXIF says; 1, upright, if it says nothing that can be read.

    Pillow's own ``exif_transpose`` writes the EXIF anew, which fails where another tag is odd.
    """
    with contextlib.suppress(Exception):
        if (said := image.getexif().get(ORIENTATION)) in TURNS:
            return said
    return 1


def upright(image: Image) -> Image:
    """A loaded picture, turned as its EXIF says."""
    turn = TURNS.get(orientation(image))
    return image if turn is None else image.transpose(turn)
