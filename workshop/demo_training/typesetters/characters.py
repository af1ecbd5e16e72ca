# SPDX-License-Identifier: Apache-2.0
"""Characters of a PDF page with their places, in the order of its text layer."""

from __future__ import annotations

import ctypes
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

import pypdfium2
import pypdfium2.raw as pdfium

# What the demo model can say for what typesetters print. A bullet becomes Markdown's.
SAID = {
    "\u2018": "'",
    "\u2019": "'",
    "\u201c": '"',
    "\u201d": '"',
    "\u2010": "-",
    "\u2011": "-",
    "\u2012": "-",
    "\u2013": "-",
    "\u2014": "-",
    "\u2212": "-",
    "\u2022": "-",
    "\u25e6": "-",
    "\u25aa": "-",
    "\uf0b7": "-",
    "\u00b7": "-",
    "\u2217": "*",
    "\u00a0": " ",
    "\u00ad": "-",
    "\x02": "-",  # pdfium's mark of a hyphen at the end of a line
}


@dataclass(frozen=True)
class Character:
    """``left`` and ``right`` bound its advance; ``top`` and ``bottom`` its ink; ``size`` is the em. All in px, y down.
    ``text`` is printable ASCII, or "?" with ``known`` False."""

    text: str
    left: float
    right: float
    top: float
    bottom: float
    known: bool = True


def characters(page: pypdfium2.PdfPage, scale: float) -> Iterator[Character | None]:
    """Characters of ``page`` at ``scale`` px per point; None where the text layer begins a new line."""
    height = page.get_height()
    text = page.get_textpage()
    loose, box = pdfium.FS_RECTF(), [ctypes.c_double() for _ in range(4)]
    for index in range(pdfium.FPDFText_CountChars(text.raw)):
        code = chr(pdfium.FPDFText_GetUnicode(text.raw, index))
        if code in "\r\n":
            yield None
            continue
        if not pdfium.FPDFText_GetLooseCharBox(text.raw, index, loose):
            continue
        left, right, bottom, top = box
        pdfium.FPDFText_GetCharBox(text.raw, index, left, right, bottom, top)
        said = SAID.get(code) or unicodedata.normalize("NFKC", code)
        known = said.isascii() and said.isprintable() and said != ""
        said = said if known else "?"
        width = (loose.right - loose.left) / len(said)
        for part, character in enumerate(said):  # the letters of a ligature share its box evenly
            start = loose.left + part * width
            yield Character(
                character,
                start * scale,
                (start + width) * scale,
                (height - top.value) * scale,
                (height - bottom.value) * scale,
                known,
            )
