# SPDX-License-Identifier: Apache-2.0
"""Documents for the tests, made in memory."""

from __future__ import annotations

import io

from PIL import Image


def pdf(pages: int) -> bytes:
    """Blank pages."""
    first, *rest = [Image.new("L", (100, 140), 255) for _ in range(pages)]
    with io.BytesIO() as buffer:
        first.save(buffer, "PDF", save_all=True, append_images=rest)
        return buffer.getvalue()
