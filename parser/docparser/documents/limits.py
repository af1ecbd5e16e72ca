# SPDX-License-Identifier: Apache-2.0
"""The operator's limits on one document."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a renderer starts in half the time without pydantic
    from docparser.settings import Settings

LONGEST_SIDE = 32_000  # pixels: parts of OpenCV end at 32,767; JPEG, the format of crops for the VLM, ends at 65,500


@dataclasses.dataclass(frozen=True)
class DocumentLimits:
    """Pixel counts are width x height; ``pdf_scale`` is in pixels per PDF point. Turning one page into pixels may take
    ``render_timeout_s`` seconds of CPU time and ``render_memory_mib`` MiB."""

    max_pages: int
    max_image_pixels: int
    max_pdf_page_pixels: int
    max_pdf_objects: int
    pdf_scale: float
    render_timeout_s: float
    render_memory_mib: int

    @classmethod
    def of(cls, settings: Settings) -> DocumentLimits:
        return cls(**{field.name: getattr(settings, field.name) for field in dataclasses.fields(cls)})
