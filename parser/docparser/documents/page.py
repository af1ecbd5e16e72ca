# SPDX-License-Identifier: Apache-2.0
"""A page as it was read, with its reader's notes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from docparser.own_text.characters import Characters

if TYPE_CHECKING:  # the processes that read documents need no pydantic
    from docparser.contract.answers import Note


class Page(NamedTuple):
    """``pixels``: uint8 ``[height, width, 3]``, blue first. ``notes`` as ``docparser`` of an answer has them.
    ``characters`` are a PDF page's own text, if it was asked for."""

    pixels: np.ndarray
    notes: list[Note]
    characters: Characters | None = None


def note(kind: str, message: str) -> Note:
    return {"kind": kind, "message": message}
