# SPDX-License-Identifier: Apache-2.0
"""The operator's limits on one document, as a worker needs them."""

from __future__ import annotations

import dataclasses

from docparser.settings import Settings


LONGEST_SIDE = 32_000  # pixels: parts of OpenCV end at 32,767, and JPEG, in which crops go to the VLM, at 65,500


@dataclasses.dataclass(frozen=True)
class Limits:
    """Pixel counts are width x height; ``pdf_scale`` is in pixels per PDF point."""

    max_pages: int
    max_image_pixels: int
    max_pdf_page_pixels: int
    max_pdf_objects: int
    pdf_scale: float

    @classmethod
    def of(cls, settings: Settings) -> Limits:
        return cls(**{field.name: getattr(settings, field.name) for field in dataclasses.fields(cls)})
