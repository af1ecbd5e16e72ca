# SPDX-License-Identifier: Apache-2.0
"""A page as it was read, and what its reader has to say of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:  # the processes that read documents need no pydantic
    from docparser.contract.answers import Note


class Page(NamedTuple):
    """``pixels``: uint8 ``[height, width, 3]``, blue first. ``notes`` as ``docparser`` of an answer has them."""

    pixels: np.ndarray
    notes: list[Note]


def note(kind: str, message: str) -> Note:
    return {"kind": kind, "message": message}
