# SPDX-License-Identifier: Apache-2.0
"""A table asked for line by line of its cells, for a VLM that reads lines and no tables, as the demo weights do
(docs/decisions/0304). The answers become OTSL, which PaddleX expects of a table: ``<fcel>`` before a text, ``<ecel>``
for an empty cell, ``<lcel>``, ``<ucel>`` and ``<xcel>`` for one that belongs to the cell on its left, above it, or
both, and ``<nl>`` behind a row.
"""

from __future__ import annotations

import dataclasses
import re

import numpy as np
from PIL import Image, ImageOps

from docparser.page.question import TEXT_PROMPT, Question
from docparser.places.box import Grid, GridCell, PixelBox
from docparser.places.grids import grid
from docparser.small_print import bands

X_HEIGHT = 22.0  # px that the print of a line is enlarged to
MARGIN = 0.5  # lines of print, of paper around a line
RIM = 1  # px of the picture around the ink of a line
EDGE = 24  # grey levels between two rows of pixels
STEP = 0.02  # degrees: rules drift by a third of a pixel in a thousand
LEAST_PIXELS = 28 * 28  # of a request: one image token
TAG = re.compile("<(?:fcel|ecel|lcel|ucel|xcel|nl)>")


@dataclasses.dataclass(frozen=True)
class Cells:
    """``questions``: of the lines of print, cell by cell in the order of the grid."""

    grid: Grid
    questions: list[Question]

    def otsl(self, texts: list[str]) -> str:
        """``texts``: the answers, in the order of the questions."""
        answers = iter(texts)
        return otsl_of(
            self.grid, [bands.joined([plain(next(answers)) for _ in cell.lines]) for cell in self.grid.cells]
        )


def otsl_of(grid: Grid, texts: list[str]) -> str:
    """``texts``: of the cells of the grid, in order, without marks of OTSL."""
    marks = [["<ecel>"] * grid.columns for _ in range(grid.rows)]
    for cell, text in zip(grid.cells, texts, strict=True):
        for row in range(cell.row, cell.row + cell.rows):
            for column in range(cell.column, cell.column + cell.columns):
                marks[row][column] = _mark(cell, row, column, text)
    return "".join("".join(row) + "<nl>" for row in marks)


def _mark(cell: GridCell, row: int, column: int, text: str) -> str:
    if row > cell.row:
        return "<xcel>" if column > cell.column else "<ucel>"
    if column > cell.column:
        return "<lcel>"
    return f"<fcel>{text}" if text else "<ecel>"


def plain(text: str) -> str:
    """A cell's text in one line, without marks of OTSL."""
    while TAG.search(text):  # one may come of what is left of another
        text = TAG.sub("", text)
    return " ".join(text.split())


def find(question: Question) -> Cells | None:
    """The question about a table as questions about the text of its cells; None where no grid is found in its
    picture."""
    image = straightened(bands.picture_of(question))
    found = grid.find(np.asarray(image.convert("L")))
    if found is None:
        return None
    return Cells(found, [_about(question, image, found, cell, line) for cell in found.cells for line in cell.lines])


def straightened(image: Image.Image) -> Image.Image:
    """A table of a page that was scanned askew, upright: by the upper and lower edges of print, rules and shading."""
    grey = np.asarray(image.convert("L")).astype(np.int16)
    return bands.turned(image, bands.rise(np.abs(np.diff(grey, axis=0)) > EDGE, STEP))


def _about(question: Question, image: Image.Image, found: Grid, cell: GridCell, line: PixelBox) -> Question:
    height = max(found.line, line.bottom - line.top)
    picture = _cut(image, cell.area, line, round(MARGIN * height))
    scale = max(1.0, X_HEIGHT / (bands.X_HEIGHT_OF_LINE * height))
    least = max(LEAST_PIXELS, round(picture.width * picture.height * scale**2))
    return dataclasses.replace(bands.with_picture(question, picture, least), prompt=TEXT_PROMPT)


def _cut(image: Image.Image, area: PixelBox, line: PixelBox, margin: int) -> Image.Image:
    """A line of print on its paper, with paper around it; dark on light, whatever it was."""
    paper = np.median(np.asarray(image.crop(area)), axis=(0, 1)).astype(int)
    box = (
        max(area.left, line.left - RIM),
        max(area.top, line.top - RIM),
        min(area.right, line.right + RIM),
        min(area.bottom, line.bottom + RIM),
    )
    print_ = image.crop(box)
    cut = Image.new("RGB", (print_.width + 2 * margin, print_.height + 2 * margin), tuple(paper.tolist()))
    cut.paste(print_, (margin, margin))
    grey = np.asarray(cut.convert("L"))
    level = int(grey[0, 0])
    if int(grey.max()) - level > level - int(grey.min()):
        return ImageOps.autocontrast(ImageOps.invert(cut.convert("L"))).convert("RGB")
    return cut
