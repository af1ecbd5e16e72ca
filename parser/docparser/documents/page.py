# SPDX-License-Identifier: Apache-2.0
"""A page as it was read, with its reader's notes, and the operator's limits on reading it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # the service loads no NumPy, and the processes that read documents no pydantic
    import numpy as np

    from docparser.contract.answers import Note
    from docparser.own_text.characters import Characters
    from docparser.settings import Settings

LONGEST_SIDE = 32_000  # pixels: parts of OpenCV end at 32,767; JPEG, the format of crops for the VLM, ends at 65,500


class Page(NamedTuple):
    """``pixels``: uint8 ``[height, width, 3]``, blue first. ``notes`` as ``docparser`` of an answer has them.
    ``characters`` are a PDF page's own text, if it was asked for."""

    pixels: np.ndarray
    notes: list[Note]
    characters: Characters | None = None


def note(kind: str, message: str) -> Note:
    return {"kind": kind, "message": message}


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
