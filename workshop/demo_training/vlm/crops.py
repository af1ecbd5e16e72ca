# SPDX-License-Identifier: Apache-2.0
"""Training crops as the pipeline sends them: drawn, cut with jitter, JPEG-coded, resized.

All crops of a batch share one size, so the model sees no padding. Each crop comes with dense
labels: the character under points of every patch, its neighbours, its line, and for every text
token the image token that shows it. They exist because the text was drawn here.
"""

from __future__ import annotations

import io
import math
import random
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image, ImageFilter
from tokenizers import Tokenizer

from ..drawing.block import Colour, Line, any_colour, draw_block, read, wrap
from ..drawing.fonts import CORE, WIDER, Face
from ..drawing.words import TextSource
from .shelf import Cutting, Shelf
from .tokenizer import Segmenter

PATCH, CELL = 14, 28
HEIGHTS, FINE_HEIGHTS = (10.0, 26.0), (9.8, 14.5)  # px of a small x on the page
MIN_PIXELS, MAX_PIXELS = 112_896, 1_003_520  # what PaddleOCR's client asks for
GLYPHS = 97  # printable ASCII without the space (94), the space, paper, other
SPACE, PAPER, IGNORE = 94, 95, -100
MAX_LINES = 16
POINTS = (1 / 6, 1 / 2, 5 / 6)  # where along a patch the character is asked for


@dataclass(frozen=True)
class Stage:
    """One step of the curriculum. ``tokens`` bounds image tokens a crop; ``patches`` those of a batch."""

    steps: int
    lines: tuple[int, int] = (1, 1)
    widths: tuple[int, int] = (80, 360)  # px on the page
    narrow: float = 0.5  # share of paragraphs of at most 600 px
    natural: float = 0.0  # share of batches sized as PaddleOCR's client would
    tokens: tuple[int, int] = (8, 60)
    wider: float = 0.0  # share of crops outside the core range
    stacked: float = 0.0  # share of crops made of two paragraphs
    reading: bool = True  # train the language model too
    frozen: bool = False  # train the auxiliary heads alone, on weights that are there already
    strange: tuple[float, float] = (0.05, 0.6)
    fine: float = 0.0  # share of batches of the smallest print, seldom resized: two or three letters a patch pair
    patches: int = 5000
    small: float = 0.0  # how much crops of few image tokens are preferred: they teach as many lines for less work
    long: float = 0.25  # share of crops that may have more than six lines
    echo: float = 0.0  # share of words that are said twice within a few words
    phrases: float = 0.0  # how often, per word, some words of before come again in a row
    topics: float = 0.0  # share of crops whose words are a few dozen, as in prose about one thing
    short: float = 0.0  # share of batches of a word or two, which the client's lower bound blows up several times
    batches: int = 1  # batches a process and step: crop sizes vary between batches, so more of them calm the gradient
    printed: float = 0.0  # share of batches from the shelf of printed pages
    tower_every: int = 1  # the vision tower learns in every n-th step; the other steps cost half


@dataclass(frozen=True)
class Crop:
    """pixels uint8 [H, W, 3]; lines in px of the page, ``scale`` (x, y) leads to px of ``pixels``."""

    pixels: np.ndarray
    lines: list[Line]
    text: str
    scale: tuple[float, float]


@dataclass
class CropBatch:
    """pixels uint8 [B, H, W, 3]; patch labels int64 [B, P, ...]; one list a crop of token ids and cells."""

    pixels: np.ndarray
    glyph: np.ndarray  # [B, P, 3]
    context: np.ndarray  # [B, P, 2] the characters before and after the middle one
    line: np.ndarray  # [B, P]
    texts: list[str] = field(default_factory=list)
    tokens: list[list[int]] = field(default_factory=list)
    cells: list[list[tuple[int, int]]] = field(default_factory=list)  # first and last image token of each token


def smart_resize(height: int, width: int, low: int = MIN_PIXELS, high: int = MAX_PIXELS) -> tuple[int, int]:
    """The published resize rule: multiples of 28 with an area between ``low`` and ``high`` px."""
    if height < CELL:
        width, height = round(width * CELL / height), CELL
    if width < CELL:
        height, width = round(height * CELL / width), CELL
    h, w = round(height / CELL) * CELL, round(width / CELL) * CELL
    if h * w > high:
        scale = math.sqrt(height * width / high)
        h, w = (max(CELL, math.floor(side / scale / CELL) * CELL) for side in (height, width))
    elif h * w < low:
        scale = math.sqrt(low / (height * width))
        h, w = (math.ceil(side * scale / CELL) * CELL for side in (height, width))
    return h, w


def keeps_size(rng: random.Random, cells: int, small: float) -> bool:
    """Keep a crop size of ``cells`` image tokens with probability (150 / cells) ** small, at most 1."""
    return rng.random() < min(1.0, (150 / cells) ** small)


def _fitting(stage: Stage, cells: int) -> int:
    """How many crops of ``cells`` image tokens a batch has.

    Attention costs as much as the linear layers at about 900 patches; batches of equal cost keep the processes from
    waiting for each other.
    """
    patches = cells * (CELL // PATCH) ** 2
    return max(2 if cells <= 640 else 1, min(64, round(1.6 * stage.patches / (patches * (1 + patches / 900)))))


def _enlarged(size: tuple[int, int], scale: float) -> tuple[int, int]:
    """Height and width after the client's rule of a crop of ``size`` (width, height) that was enlarged before."""
    width, height = size
    return smart_resize(round(height * scale), round(width * scale))


def _alike(size: tuple[int, int], other: tuple[int, int]) -> bool:
    return all(abs(math.log(one / two)) < 0.07 for one, two in zip(size, other))


class CropMaker:
    """Makes batches of one stage with its own random stream."""

    def __init__(self, tokenizer: Tokenizer, seed: int, split: str = "train", shelf: Path | None = None):
        """``shelf``: folder of printed pages, for stages that have some."""
        self.rng = random.Random(seed)
        self.shelf = Shelf(shelf, self.rng) if shelf else None
        self.noise = np.random.default_rng(seed)
        self.segmenter = Segmenter(tokenizer)
        self.split = split

    def batch(self, stage: Stage) -> CropBatch:
        """Raises ValueError for a stage of printed pages without a shelf."""
        if self.rng.random() < stage.printed:
            return self._printed(stage)
        while True:
            fine = self.rng.random() < stage.fine
            heights, scales = (FINE_HEIGHTS, (0.85, 1.2)) if fine else (HEIGHTS, (0.9, 2.4))
            width, height = self._crop_size(stage, heights)
            if self.rng.random() < stage.natural * (0.25 if fine else 1.0):
                h, w = smart_resize(height, width)
            else:
                scale = math.exp(self.rng.uniform(*map(math.log, scales)))
                h, w = (max(CELL, round(side * scale / CELL) * CELL) for side in (height, width))
            cells = h * w // CELL**2
            if stage.tokens[0] <= cells <= stage.tokens[1] and keeps_size(self.rng, cells, stage.small):
                break
        crops = [self._crop(stage, width, height, h, w, heights) for _ in range(_fitting(stage, cells))]
        return self._collate(crops, h, w)

    def _printed(self, stage: Stage) -> CropBatch:
        """Crops of printed pages that are about as large as each other, brought to one size."""
        if self.shelf is None:
            raise ValueError("the stage has printed pages and there is no shelf; name it with --shelf")
        while True:
            cuttings = self.shelf.look(160)
            sizes = [_enlarged(cutting.size, cutting.scale(self.rng)) for cutting in cuttings]
            first = next(
                (
                    size
                    for size in sizes
                    if stage.tokens[0] <= (cells := size[0] * size[1] // CELL**2) <= stage.tokens[1]
                    and keeps_size(self.rng, cells, stage.small)
                ),
                None,
            )
            if first:
                break
        h, w = first
        alike = [cutting for cutting, size in zip(cuttings, sizes) if _alike(size, first)]
        count = _fitting(stage, h * w // CELL**2)
        return self._collate([self._from_page(cutting, h, w) for cutting in alike[:count]], h, w)

    def _from_page(self, cutting: Cutting, h: int, w: int) -> Crop:
        image, lines = cutting.cut()
        width, height = image.size
        image = self._photograph(self._worn(image)).resize((w, h), Image.Resampling.BICUBIC)
        return Crop(np.asarray(image), lines, read(lines), (w / width, h / height))

    def _worn(self, image: Image.Image) -> Image.Image:
        """Now and then grey paper or a blur, as scanners leave them."""
        if self.rng.random() < 0.1:
            low, high = self.rng.randint(0, 60), self.rng.randint(200, 255)
            image = image.point(lambda value: round(low + value * (high - low) / 255))
        if self.rng.random() < 0.1:
            image = image.filter(ImageFilter.GaussianBlur(self.rng.uniform(0.3, 0.8)))
        return image

    def _crop_size(self, stage: Stage, heights: tuple[float, float] = HEIGHTS) -> tuple[int, int]:
        """Width and height (px on the page) of a plausible block."""
        rng = self.rng
        low, high = stage.lines
        lines = rng.randint(low, min(high, 6)) if rng.random() < 1 - stage.long else rng.randint(low, high)
        size = self._size(rng.choice(CORE), heights)
        low, high = stage.widths
        if rng.random() < stage.short:
            return rng.randint(size, 8 * size), round(size * 1.1) + rng.randint(2, 12)
        if lines == 1 and rng.random() < 0.5:
            width = round(math.exp(rng.uniform(math.log(max(24, low // 3)), math.log(high))))
        elif rng.random() < stage.narrow:
            width = rng.randint(low, min(high, max(low + 1, 600)))
        else:
            width = rng.randint(low, high)
        return max(width, size), round(size * ((lines - 1) * rng.uniform(1.15, 1.5) + 1.1)) + rng.randint(2, 12)

    def _size(self, face: Face, heights: tuple[float, float]) -> int:
        return round(math.exp(self.rng.uniform(*map(math.log, heights))) / face.x_height)

    def page_crop(self, stage: Stage) -> tuple[Image.Image, str]:
        """One crop at page size, before the client's JPEG, and its text: for measuring a served model."""
        width, height = self._crop_size(stage)
        canvas, lines = self._draw(stage, width, height, HEIGHTS)
        return canvas, read(lines)

    def _crop(
        self, stage: Stage, width: int, height: int, h: int, w: int, heights: tuple[float, float] = HEIGHTS
    ) -> Crop:
        canvas, lines = self._draw(stage, width, height, heights)
        image = self._photograph(canvas).resize((w, h), Image.Resampling.BICUBIC)
        return Crop(np.asarray(image), lines, read(lines), (w / width, h / height))

    def _draw(
        self, stage: Stage, width: int, height: int, heights: tuple[float, float]
    ) -> tuple[Image.Image, list[Line]]:
        rng = self.rng
        # Where no try fits, the last one's face, top and bottom stay.
        face, top, bottom = CORE[0], 0.0, 0.0
        for _ in range(60):
            face = rng.choice(WIDER) if rng.random() < stage.wider else rng.choice(CORE)
            left, right = (rng.choice((rng.uniform(-1.5, 5), rng.uniform(0, 12))) for _ in range(2))
            top, bottom = (rng.choice((rng.uniform(-1, 5), rng.uniform(0, 10))) for _ in range(2))
            count = rng.randint(1, max(stage.lines[1], 1))
            pitch = rng.uniform(1.12, 1.6)
            two, gap = count >= 3 and rng.random() < stage.stacked, rng.uniform(0, 0.8)
            size = int((height - top - bottom) / ((count - 1) * pitch + 1.12 + (gap if two else 0)))
            low, high = (8.5, 30) if rng.random() < stage.wider else (heights[0] - 0.2, heights[1] + 0.5)
            if low <= size * face.x_height <= high and width - left - right >= 1.2 * size:
                break
        else:
            count, two, gap, pitch = 1, False, 0.0, 1.2
            left = right = 0.0
            size = max(12, min(width // 2, int((height - top - bottom) / 1.12)))
        inner = width - left - right
        source = TextSource(
            self.split, rng, strange=rng.choice((rng.uniform(*stage.strange), rng.uniform(*stage.strange) ** 2))
        )
        if rng.random() < 0.04:
            source.strange = 1.0
        if stage.topics and rng.random() < stage.topics:
            source.vocabulary = tuple(rng.sample(source.vocabulary, rng.randint(8, 40)))
        align = rng.choices(("left", "justify", "center", "right"), (70, 20, 7, 3))[0]
        paper, ink = self._colours()
        canvas = Image.new("RGB", (width, height), paper)
        lines: list[Line] = []
        parts = [count // 2, count - count // 2] if two else [count]
        for part in parts:
            text = wrap(source.stream(stage.echo, stage.phrases), face, size, inner, part)
            if part > 1 and rng.random() < 0.7:
                # Paragraphs end before the margin.
                words = text[-1].split(" ")
                text[-1] = " ".join(words[: rng.randint(1, len(words))])
            lines += draw_block(canvas, face, size, text, left, top, size * pitch, ink, width=inner, align=align)
            top += part * size * pitch + gap * size
        return canvas, lines

    def _colours(self) -> tuple[Colour, Colour]:
        rng = self.rng
        roll = rng.random()
        if roll < 0.6:
            paper: Colour = (255, 255, 255)
        elif roll < 0.97:
            base = rng.randint(215, 255)
            red, green, blue = (min(255, base + rng.randint(-12, 12)) for _ in range(3))
            paper = red, green, blue
        else:
            return any_colour(rng, 10, 90), any_colour(rng, 225, 255)
        if rng.random() < 0.6:
            grey = rng.randint(0, 40)
            return paper, (grey, grey, grey)
        return paper, any_colour(rng, 0, 110)

    def _photograph(self, image: Image.Image) -> Image.Image:
        """What lies between paper and model: sensor noise now and then, always the client's JPEG."""
        if self.rng.random() < 0.15:
            pixels = np.asarray(image, np.float32)
            pixels = pixels + self.noise.normal(0, self.rng.uniform(1, 6), pixels.shape).astype(np.float32)
            image = Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
        coded = io.BytesIO()
        image.save(coded, format="JPEG", quality=75 if self.rng.random() < 0.8 else self.rng.randint(50, 95))
        return Image.open(coded).convert("RGB")

    def _collate(self, crops: list[Crop], h: int, w: int) -> CropBatch:
        rows, columns = h // PATCH, w // PATCH
        shape = (len(crops), rows * columns)
        batch = CropBatch(
            np.stack([crop.pixels for crop in crops]),
            np.full((*shape, 3), PAPER, np.int64),
            np.full((*shape, 2), IGNORE, np.int64),
            np.full(shape, IGNORE, np.int64),
        )
        for index, crop in enumerate(crops):
            batch.texts.append(crop.text)
            self._label(batch, index, crop.lines, rows, columns, crop.scale)
        return batch

    def _label(
        self, batch: CropBatch, index: int, lines: list[Line], rows: int, columns: int, scale: tuple[float, float]
    ) -> None:
        sx, sy = scale
        glyph = batch.glyph[index].reshape(rows, columns, 3)
        context = batch.context[index].reshape(rows, columns, 2)
        line_of = batch.line[index].reshape(rows, columns)
        middle = (np.arange(rows) + 0.5) * PATCH / sy
        places: list[tuple[float, float]] = []
        for number, line in enumerate(lines):
            codes = np.array([SPACE if c == " " else ord(c) - 33 for c in line.text], np.int64)
            lefts = np.asarray(line.lefts)
            # Ink of other rows of the same line (ascenders, large print) is neither letter nor paper.
            wide = (middle > line.baseline - 2.0 * line.x_height) & (middle < line.baseline + 0.8 * line.x_height)
            band = (middle > line.baseline - 1.25 * line.x_height) & (middle < line.baseline + 0.25 * line.x_height)
            # Of print that is smaller than a patch, the row that lies nearest.
            band[np.abs(middle - (line.baseline - 0.5 * line.x_height)).argmin()] = True
            columns_inked = slice(max(0, int(lefts[0] * sx // PATCH)), max(0, math.ceil(lefts[-1] * sx / PATCH)))
            for row in np.nonzero(wide)[0]:
                cells = glyph[row, columns_inked]
                cells[cells == PAPER] = IGNORE
            for row in np.nonzero(band)[0]:
                for point, share in enumerate(POINTS):
                    x = (np.arange(columns) + share) * PATCH / sx
                    at = np.searchsorted(lefts, x, side="right") - 1
                    inside = (at >= 0) & (at < len(codes))
                    glyph[row, inside, point] = codes[at[inside]]
                    if point == 1:
                        previous = np.where(at > 0, codes[np.clip(at - 1, 0, len(codes) - 1)], SPACE)
                        following = np.where(at + 1 < len(codes), codes[np.clip(at + 1, 0, len(codes) - 1)], SPACE)
                        context[row, inside, 0] = previous[inside]
                        context[row, inside, 1] = following[inside]
                        line_of[row, inside] = min(number, MAX_LINES - 1)
            y = line.baseline - 0.5 * line.x_height
            centres = (lefts[:-1] + lefts[1:]) / 2
            if number and not lines[number - 1].joined:
                places.append(places[-1])  # the blank between two lines stands at the end of the first
            last = number + 1 == len(lines)
            places += [(x, y) for x in centres[: len(line.text if last else line.said)]]
        ids, offsets = self.segmenter.encode(batch.texts[index])
        across = columns // 2

        def cell(position: int) -> int:
            x, y = places[min(position, len(places) - 1)]
            column = min(max(int(x * sx // CELL), 0), across - 1)
            return min(max(int(y * sy // CELL), 0), rows // 2 - 1) * across + column

        text, cells = batch.texts[index], []
        for start, end in offsets:
            first = start
            while first < end - 1 and text[first] == " ":
                first += 1
            cells.append((cell(first), cell(max(end - 1, first))))
        batch.tokens.append(ids)
        batch.cells.append(cells)
