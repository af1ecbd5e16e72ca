# SPDX-License-Identifier: Apache-2.0
"""Pages of a PDF as pictures with their lines: what is printed, and where every character stands."""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Iterable, Iterator
from pathlib import Path

import pypdfium2
from PIL import Image

from .blocks import TextBlock
from .characters import Character, characters
from .placed import PlacedBlock, blocks_on_pages, covers

LEVEL = set("acemnorsuvwxz")  # as high as an x, on the baseline
LEAST_X_HEIGHT = 4.5  # px; smaller print cannot be told apart
PITCH = (0.9, 6.5)  # from one baseline to the next, in x-heights


@dataclasses.dataclass(frozen=True)
class PrintedLine:
    """``lefts[i]`` and ``lefts[i + 1]`` bound character ``i``; ``baseline`` and ``x_height``: px. ``joined``: its last
    character is a hyphen that parts a word, whose rest begins the next line."""

    text: str
    lefts: list[float]
    baseline: float
    x_height: float
    joined: bool = False

    @property
    def left(self) -> float:
        return self.lefts[0]

    @property
    def right(self) -> float:
        return self.lefts[-1]

    @property
    def top(self) -> float:
        return self.baseline - 1.65 * self.x_height

    @property
    def bottom(self) -> float:
        return self.baseline + 0.55 * self.x_height


@dataclasses.dataclass(frozen=True)
class PrintedPage:
    """``runs``: lines of one column that follow each other, paragraph by paragraph; a paragraph is a list of lines.
    ``blocks``: what a layout model should find, in reading order; None where that cannot be told."""

    image: Image.Image
    runs: list[list[list[PrintedLine]]]
    blocks: list[PlacedBlock] | None

    def save(self, path: Path) -> None:
        """Write PATH.png and PATH.json."""
        self.image.save(path.with_suffix(".png"), compress_level=2)
        runs = [[[dataclasses.asdict(line) for line in part] for part in run] for run in self.runs]
        blocks = None if self.blocks is None else [dataclasses.asdict(block) for block in self.blocks]
        page = {"size": self.image.size, "runs": runs, "blocks": blocks}
        path.with_suffix(".json").write_text(json.dumps(page), encoding="ascii")


def printed_pages(pdf: Path, scale: float, source: list[TextBlock]) -> Iterator[PrintedPage]:
    """Pages of ``pdf``, which was set from ``source``, at ``scale`` px per point, as far as they hold text."""
    document = pypdfium2.PdfDocument(pdf)
    try:
        streams = [list(characters(page, scale)) for page in document]
        placed = blocks_on_pages(
            source, [list(text_lines(stream)) for stream in streams], [page.get_height() * scale for page in document]
        )
        for page, stream, blocks in zip(document, streams, placed, strict=True):
            if runs := group(list(_lines(stream))):
                image = page.render(scale=scale).to_pil().convert("RGB")
                yield PrintedPage(image, runs, blocks if blocks and covers(blocks, image) else None)
    finally:
        document.close()


def text_lines(stream: Iterable[Character | None]) -> Iterator[list[Character]]:
    """The characters of each line of the text layer."""
    line: list[Character] = []
    for character in (*stream, None):
        if character is not None and line and _elsewhere(line[-1], character):
            yield line
            line = []
        if character is not None:
            line.append(character)
        elif line:
            yield line
            line = []


def _lines(stream: Iterable[Character | None]) -> Iterator[PrintedLine | None]:
    """Lines of the text layer; None for one that holds what the model cannot say, or that is too small."""
    for line in text_lines(stream):
        yield from _line(line)


def _elsewhere(last: Character, character: Character) -> bool:
    if character.text == " ":
        return False
    height = max(last.bottom - last.top, character.bottom - character.top, 1.0)
    return character.left < last.left - height or character.top > last.bottom + 3 * height


def _line(found: list[Character]) -> Iterator[PrintedLine | None]:
    while found and found[-1].text == " ":
        found.pop()
    while found and found[0].text == " ":
        found.pop(0)
    if not found:
        return
    level = [c for c in found if c.text in LEVEL] or [c for c in found if c.text.isalnum()]
    if not level or not all(c.known for c in found):
        yield None
        return
    baseline = statistics.median(c.bottom for c in level)
    x_height = statistics.median(c.bottom - c.top for c in level) * (1.0 if level[0].text in LEVEL else 0.7)
    if x_height < LEAST_X_HEIGHT:
        yield None
        return
    text, lefts, end = "", [], found[0].left
    for character in found:
        if character.text == " ":
            if text and text[-1] == " ":
                continue
            text += " "
            lefts.append(end)
            continue
        if text and text[-1] == " ":
            lefts[-1] = min(end, character.left)
        text += character.text
        lefts.append(max(character.left, lefts[-1] if lefts else character.left))
        end = max(character.right, lefts[-1])
    yield PrintedLine(text, [round(value, 1) for value in (*lefts, end)], round(baseline, 1), round(x_height, 2))


def group(lines: list[PrintedLine | None]) -> list[list[list[PrintedLine]]]:
    """Runs of lines below each other in one column, each in paragraphs."""
    runs: list[list[list[PrintedLine]]] = []
    last: PrintedLine | None = None
    pitch = 0.0
    for line in lines:
        if line is None:
            last = None
            continue
        if last is None or not _follows(last, line):
            runs.append([[line]])
            pitch = 0.0
        else:
            step = line.baseline - last.baseline
            parted = last.text[-1:] == "-" and last.text[-2:-1].isalpha() and line.text[:1].islower()
            runs[-1][-1][-1] = dataclasses.replace(last, joined=parted)
            if _begins_paragraph(runs[-1][-1], line, step, pitch):
                runs[-1].append([line])
            else:
                runs[-1][-1].append(line)
                pitch = step
        last = line
    return runs


def _begins_paragraph(paragraph: list[PrintedLine], line: PrintedLine, step: float, pitch: float) -> bool:
    """After more room than between lines, or indented where the line above ended early."""
    last = paragraph[-1]
    room = max(above.right for above in paragraph) - last.right
    return bool(pitch and step > 1.18 * pitch) or (
        line.left > last.left + 1.5 * line.x_height and room > 8 * line.x_height
    )


def _follows(last: PrintedLine, line: PrintedLine) -> bool:
    step = line.baseline - last.baseline
    low, high = sorted((last.x_height, line.x_height))
    overlap = min(last.right, line.right) - max(last.left, line.left)
    return low * PITCH[0] < step < high * PITCH[1] and high < 1.35 * low and overlap > 0
