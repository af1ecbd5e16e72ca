# SPDX-License-Identifier: Apache-2.0
"""The pages with their layout boxes drawn over them, as one PDF."""

from __future__ import annotations

from pathlib import Path

from .. import files
from ..state import DocumentState, Trouble
from .picture_pdf import PicturePdf


def write(state: DocumentState, path: Path) -> bool:
    """False where no page was drawn."""
    with files.whole(path) as part, part.open("wb") as stream:
        drawn = PicturePdf(stream)
        for record in state.records():
            if isinstance(record, Trouble):
                continue
            drawing = state.drawing(record["page"])
            if drawing.is_file():
                drawn.add(drawing.read_bytes(), record.get("points"))
        drawn.close()
    return bool(drawn.count)
