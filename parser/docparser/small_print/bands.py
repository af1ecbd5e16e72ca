# SPDX-License-Identifier: Apache-2.0
"""Blocks of print cut into bands of a few lines, enlarged where the print is small: for a VLM that loses its place in
long paragraphs, as the demo weights do (docs/decisions/0304).

A block of a page that was scanned askew is straightened first. A line is found by its ink: rows of a block's picture
that have some, between rows that have none. Where descenders touch the ascenders below, the rows with least ink count.
"""

from __future__ import annotations

import base64
import dataclasses
import io
import math
from typing import Any

import numpy as np
from PIL import Image

LINES = 4  # of a band
ALONE = 5  # lines of a block that stays whole
INKED = 60  # grey levels from the paper's
NOISE = 0.001  # of a row's pixels
TOUCHING = 0.2  # of the ink of a body's rows: where there is less, two lines touch
X_HEIGHT = 13.0  # px that small print is enlarged to
MOST_SCALE = 2.4
X_HEIGHT_OF_LINE = 1 / 2.2  # of the ink from ascenders to descenders
LETTERS = 8  # px; what is lower is no line of letters
MOST_SKEW = 2.0  # degrees
STEP = 0.1  # degrees
SHARPER = 1.05  # times the profile of the block as it is: less is no skew
POINTS = 20_000  # with ink, that a skew is found by
DATA_URL = "data:image/jpeg;base64,"

Body = tuple[int, int]  # first row with ink, and the row after the last


@dataclasses.dataclass(frozen=True)
class Bands:
    """``rows`` (first, after the last) of each band of a block, and by how much its print is to be enlarged."""

    rows: list[Body]
    scale: float


@dataclasses.dataclass(frozen=True)
class Band:
    """What is asked for at once: a block or some lines of one. ``picture``: grey, uint8 [height, width]; None where it
    is none that can be cut. ``bodies``: its lines; ``x_height``: of their print, px."""

    request: dict[str, Any]
    picture: np.ndarray | None = None
    bodies: list[Body] = dataclasses.field(default_factory=list)
    x_height: float = 0.0

    def by_line(self) -> list[dict[str, Any]]:
        """Requests for each of its lines."""
        image = picture_of(self.request)
        assert image is not None and self.picture is not None, "a band with lines has a picture"
        ink = _ink(self.picture)
        cuts = [0, *(_between(ink, above, below) for above, below in zip(self.bodies, self.bodies[1:])), image.height]
        scale = _scale(self.x_height)
        return [
            _question(self.request, image.crop((0, top, image.width, end)), scale) for top, end in zip(cuts, cuts[1:])
        ]


def find(image: np.ndarray) -> Bands:
    """``image``: grey, uint8 [height, width]."""
    height = image.shape[0]
    ink, bodies = _ink(image), _bodies(image)
    if not bodies:
        return Bands([(0, height)], 1.0)
    scale = _scale(_x_height(bodies))
    if len(bodies) <= ALONE:
        return Bands([(0, height)], scale)
    count = math.ceil(len(bodies) / LINES)
    starts = [round(number * len(bodies) / count) for number in range(1, count)]
    cuts = [0, *(_between(ink, bodies[start - 1], bodies[start]) for start in starts), height]
    return Bands(list(zip(cuts, cuts[1:])), scale)


def _x_height(bodies: list[Body]) -> float:
    return X_HEIGHT_OF_LINE * float(np.median([last - first for first, last in bodies]))


def _scale(x_height: float) -> float:
    return min(MOST_SCALE, max(1.0, X_HEIGHT / x_height))


def skew(image: np.ndarray) -> float:
    """Degrees, counter-clockwise, that lines of print rise by; 0.0 where no angle makes them clearly sharper.

    ``image``: grey, uint8 [height, width].
    """
    return rise(inked(image), STEP)


def rise(marks: np.ndarray, step: float) -> float:
    """Degrees, counter-clockwise, to about ``step``, that lines of ``marks``, bool [height, width], rise by.

    Lines are sharpest along the angle at which the sums of marks over them differ most (the sum of their squares is
    largest). 0.0 where no angle makes them clearly sharper.
    """
    rows, columns = np.nonzero(marks)
    if not len(rows):
        return 0.0
    every = max(1, len(rows) // POINTS)
    rows, columns = rows[::every], columns[::every]

    def best(degrees: np.ndarray) -> tuple[float, float]:
        return max((_sharpness(rows, columns, angle), angle) for angle in degrees.tolist())

    sharpness, found = best(np.arange(-MOST_SKEW, MOST_SKEW + STEP / 2, STEP))
    if step < STEP:
        sharpness, found = best(np.arange(found - STEP, found + STEP + step / 2, step))
    return found if sharpness > SHARPER * _sharpness(rows, columns, 0.0) else 0.0


def _sharpness(rows: np.ndarray, columns: np.ndarray, degrees: float) -> float:
    level = np.rint(rows + math.tan(math.radians(degrees)) * columns).astype(np.int64)
    return float(np.square(np.bincount(level - level.min())).sum())


def inked(image: np.ndarray) -> np.ndarray:
    """Pixels with ink, on paper of whatever grey: bool [height, width]."""
    return np.abs(image.astype(np.int16) - int(np.median(image))) > INKED


def _ink(image: np.ndarray) -> np.ndarray:
    """Pixels with ink of each row: int64 [height]."""
    return np.count_nonzero(inked(image), axis=1)


def _bodies(image: np.ndarray) -> list[Body]:
    return bodies_in(_ink(image), max(1, round(NOISE * image.shape[1])))


def bodies_in(ink: np.ndarray, noise: int) -> list[Body]:
    """Lines from top to bottom."""
    inked = runs(ink > noise)
    parted = [part for run in inked for part in _parted(ink, run)]
    if not parted:
        return []
    usual = float(np.median([last - first for first, last in parted]))
    lines: list[Body] = []
    for first, last in parted:
        # Dots and accents above their letters, underlines below.
        low = last - first < 0.4 * usual or (bool(lines) and lines[-1][1] - lines[-1][0] < 0.4 * usual)
        if lines and low and first - lines[-1][1] < 0.35 * usual:
            lines[-1] = (lines[-1][0], last)
        else:
            lines.append((first, last))
    return [line for line in lines if line[1] - line[0] >= LETTERS] or lines


def _parted(ink: np.ndarray, run: Body) -> list[Body]:
    """The lines of a run of inked rows: several, if they touch."""
    first, last = run
    rows = ink[first:last]
    parts = [(first + top, first + end) for top, end in runs(rows > TOUCHING * rows.mean())]
    heights = [end - top for top, end in parts]
    if len(parts) < 2 or min(heights) < LETTERS / 2 or min(heights) < 0.5 * max(heights):
        return [run]
    cuts = [first, *(_between(ink, above, below) for above, below in zip(parts, parts[1:])), last]
    return list(zip(cuts, cuts[1:]))


def runs(inked: np.ndarray) -> list[Body]:
    edges = np.flatnonzero(np.diff(np.concatenate(([0], inked.astype(np.int8), [0]))))
    return [(int(first), int(last)) for first, last in zip(edges[::2], edges[1::2])]


def _between(ink: np.ndarray, above: Body, below: Body) -> int:
    """The middle of the rows with least ink between two lines."""
    first, last = above[1] - 1, below[0] + 1
    rows = ink[first:last]
    least = np.flatnonzero(rows == rows.min())
    return first + int(least[len(least) // 2])


def questions(body: dict[str, Any]) -> list[Band]:
    """The request for a block's text as its bands; one with the request as it is, where nothing is to be cut."""
    image = picture_of(body)
    if image is None:
        return [Band(body)]
    image = straightened(image)
    found = find(np.asarray(image.convert("L")))
    if len(found.rows) == 1 and found.scale == 1.0:
        return [_band(body, image)]
    cuts = [image.crop((0, top, image.width, end)) for top, end in found.rows]
    return [_band(_question(body, cut, found.scale), cut) for cut in cuts]


def _band(request: dict[str, Any], cut: Image.Image) -> Band:
    grey = np.asarray(cut.convert("L"))
    bodies = _bodies(grey)
    return Band(request, grey, bodies, _x_height(bodies) if bodies else 0.0)


def _question(body: dict[str, Any], cut: Image.Image, scale: float) -> dict[str, Any]:
    usual = (body.get("mm_processor_kwargs") or {}).get("min_pixels") or 0
    return with_picture(body, cut, max(usual, round(cut.width * cut.height * scale**2)))


def picture_of(body: dict[str, Any]) -> Image.Image | None:
    """The picture of a request, RGB; None where it is none that can be cut."""
    content = body["messages"][0]["content"]
    picture = next((part for part in content if part.get("type") == "image_url"), None)
    if picture is None or not picture["image_url"]["url"].startswith(DATA_URL):
        return None
    return Image.open(io.BytesIO(base64.b64decode(picture["image_url"]["url"][len(DATA_URL) :]))).convert("RGB")


def straightened(image: Image.Image) -> Image.Image:
    """A block of a page that was scanned askew, upright."""
    return turned(image, skew(np.asarray(image.convert("L"))))


def turned(image: Image.Image, degrees: float) -> Image.Image:
    """``image`` turned clockwise, on the same paper."""
    if not degrees:
        return image
    paper = tuple(int(level) for level in np.median(np.asarray(image), axis=(0, 1)))
    return image.rotate(-degrees, Image.Resampling.BICUBIC, fillcolor=paper)


def with_picture(body: dict[str, Any], picture: Image.Image, least: int) -> dict[str, Any]:
    """The request with another picture. The VLM's own preprocessing enlarges: ``least`` says how many pixels it
    needs."""
    coded = io.BytesIO()
    picture.save(coded, "JPEG", quality=95)
    url = DATA_URL + base64.b64encode(coded.getvalue()).decode()
    message = body["messages"][0]
    content = [
        {**part, "image_url": {**part["image_url"], "url": url}} if part.get("type") == "image_url" else part
        for part in message["content"]
    ]
    bounds = dict(body.get("mm_processor_kwargs") or {})
    most = bounds.get("max_pixels")
    bounds["min_pixels"] = least if most is None else min(least, most)
    return {**body, "messages": [{**message, "content": content}], "mm_processor_kwargs": bounds}


def with_prompt(body: dict[str, Any], prompt: str) -> dict[str, Any]:
    """The request with another prompt."""
    message = body["messages"][0]
    content = [{**part, "text": prompt} if part.get("type") == "text" else part for part in message["content"]]
    return {**body, "messages": [{**message, "content": content}]}


def joined(texts: list[str]) -> str:
    """The texts of a block's bands as one: a blank between two, none inside a word that a hyphen parts."""
    whole = ""
    for text in filter(None, (text.strip() for text in texts)):
        if whole[-1:] == "-" and whole[-2:-1].isalpha() and text[:1].islower():
            whole = whole[:-1] + text
        else:
            whole += (" " if whole else "") + text
    return whole
