# SPDX-License-Identifier: Apache-2.0
"""Pages for judging, each with the words of its text layer."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pypdfium2
import yaml

from ..typesetters.faces import require_faces
from ..typesetters.make import TYPESETTERS
from .packages import plain, unpacked
from .texts import Quoted, paragraphs
from .words import words

LIST = Path(__file__).with_name("manuals.yaml")
SOURCES = ("manuals", *TYPESETTERS)
SCALE = 144 / 72  # px per point, as the parser renders
# Of manuals: headers, footers and page numbers lie outside, as shares of the page's height; Markdown leaves them out.
BODY, WHOLE = (0.075, 0.925), (0.0, 1.0)


@dataclass(frozen=True)
class JudgedPage:
    """``picture`` is the page as an image of Pillow; ``truth`` its words inside ``body``, shares of its height."""

    name: str
    picture: Any
    truth: list[str]
    body: tuple[float, float]


def pages(source: str, split: str, cache: Path, count: int) -> Iterator[JudgedPage]:
    """``source`` of SOURCES, ``split`` choose or judge; ``count`` bounds pages that are set here."""
    listed = yaml.safe_load(LIST.read_text(encoding="utf-8"))
    if source == "manuals":
        for manual in listed[split]:
            pdf = plain(unpacked(manual["package"], cache) / manual["file"])
            yield from _pages(manual["package"], pdf, manual["pages"], BODY)
        return
    require_faces()
    text = listed["texts"][split]
    prose = paragraphs(unpacked(text["package"], cache) / text["folder"])
    for seed in range(count):
        rng = random.Random(f"outside-{source}-{split}-{seed}")
        with tempfile.TemporaryDirectory() as folder:
            made = TYPESETTERS[source](rng, Quoted(rng, prose), Path(folder), 1)
            yield from _pages(f"{source} {seed}", made.pdf.read_bytes(), [1], WHOLE)


def _pages(name: str, pdf: bytes, numbers: list[int], body: tuple[float, float]) -> Iterator[JudgedPage]:
    document = pypdfium2.PdfDocument(pdf)
    try:
        for number in numbers:
            page = document[number - 1]
            width, height = page.get_size()
            text = page.get_textpage()
            read = text.get_text_bounded(0, (1 - body[1]) * height, width, (1 - body[0]) * height)
            yield JudgedPage(f"{name} {number}", page.render(scale=SCALE).to_pil().convert("RGB"), words(read), body)
    finally:
        document.close()
