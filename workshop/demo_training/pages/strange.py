# SPDX-License-Identifier: Apache-2.0
"""Plain pages outside the demo's range: faces that training never had, and print that is smaller or larger.

Drawn for measuring only: they hold blocks that the demo weights read well beside blocks that they do not.
"""

from __future__ import annotations

import random

from ..drawing.fonts import Face
from .page import Page
from .plain import typeset_plain

FACES = tuple(
    Face(name, file, False, False)
    for name, file in (
        ("DejaVu Sans Oblique", "dejavu/DejaVuSans-Oblique.ttf"),
        ("DejaVu Sans ExtraLight", "dejavu/DejaVuSans-ExtraLight.ttf"),
        ("DejaVu Sans Condensed", "dejavu/DejaVuSansCondensed.ttf"),
        ("DejaVu Serif Italic", "dejavu/DejaVuSerif-Italic.ttf"),
        ("DejaVu Serif Condensed", "dejavu/DejaVuSerifCondensed.ttf"),
        ("DejaVu Sans Mono Oblique", "dejavu/DejaVuSansMono-Oblique.ttf"),
        ("Liberation Sans Narrow", "liberation/LiberationSansNarrow-Regular.ttf"),
        ("Liberation Serif Italic", "liberation/LiberationSerif-Italic.ttf"),
        ("Liberation Mono Bold", "liberation/LiberationMono-Bold.ttf"),
    )
)
SIZES = (16, 20, 26, 34, 44, 56, 72)  # px of an em; lower-case letters of 7 to 40 px


def draw_strange_page(seed: int, split: str) -> Page:
    """The page of ``seed`` with words of ``split``; 126 seeds have every face in every size and number of columns."""
    rng = random.Random(f"strange-{split}-{seed}")
    face, size, columns = FACES[seed % 9], SIZES[seed % 7], 1 + seed % 2
    return typeset_plain(rng, split, face, face, size, columns if size < 50 else 1)
