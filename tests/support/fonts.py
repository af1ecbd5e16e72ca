# SPDX-License-Identifier: Apache-2.0
"""Fonts for tests that draw print. `sans` comes inside Pillow (Aileron), so it is on every machine; the other faces are
the system's, and a test that wants one that is not there is skipped."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import ImageFont

from tests.support.system_packages import signs

LIBERATION = Path(signs()["fonts-liberation"]).parent
FILES = {"serif": LIBERATION / "LiberationSerif-Regular.ttf", "typewriter": LIBERATION / "LiberationMono-Regular.ttf"}
FACES = ("sans", *FILES)


def font(size: int, face: str = "sans") -> ImageFont.FreeTypeFont:
    if face == "sans":
        found = ImageFont.load_default(size)
        assert isinstance(found, ImageFont.FreeTypeFont), "Pillow was built without FreeType"
        return found
    if not FILES[face].is_file():
        pytest.skip("needs fonts-liberation (apt-get install)")
    return ImageFont.truetype(str(FILES[face]), size)
