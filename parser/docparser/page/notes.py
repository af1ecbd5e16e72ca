# SPDX-License-Identifier: Apache-2.0
"""What a page's picture, blocks and texts say about how it was read.

These notes stand apart from those about blocks, because nothing failed: what reads a page did what it could. They are
made from a small copy of the page, in milliseconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import cv2
import numpy as np

from docparser.contract.answers import Note
from docparser.page.long_pages import EDGE, MOST_STRETCHED
from docparser.places.box import Sides

# The kinds.
LONG = "long"  # the layout model sees pages squeezed into a square
BLANK, DARK = "blank", "dark"  # nothing was read, and all is one tone
UNREAD = "unread"  # print lies in no block
SIDEWAYS = "sideways"  # lines of print run from top to bottom
NONSENSE = "nonsense"  # what was read is no text

TONE = 40  # levels of 255 around the page's own
INK = 1e-4  # of a page's pixels; a line of text has more
DARKEST_PAPER = 100
LOOKED_AT = 500_000  # pixels of the small copy: an A4 page at 144 dpi has a quarter of its own

CELL = 8  # pixels of the small copy; a line of print is about two high
PRINT = 5  # edges in a cell of 64 pixels: letters have more, rules and the borders of pictures fewer
WORD = 4  # cells across; what is narrower is a rule, a line's number or a speck
UNREAD_SHARE = 0.02  # of the page's print

TILE = 64  # pixels of the small copy: four lines of print
TILE_INK = 0.06  # share of a tile's pixels that are edges
SURE = 1.3  # times as uneven one way as the other
LEAST_TILES, MOST_OTHERS = 6, 0.5  # tiles with lines down the page; the others among them

MARKS = re.compile(r"<[a-z]+>|\\\(.*?\\\)|\\\[.*?\\\]", re.DOTALL)  # cells of tables, formulas
WORDS = re.compile(r"\S{3,}")
LETTER = r"[^\W\d_\u1100-\u11ff\u2e80-\ua4cf\uac00-\ud7ff\uf900-\ufaff]"  # of scripts that have words
MIXED = re.compile(rf"{LETTER}[\d#$%&*+<=>@\\^|~{{}}\[\]!?;°]+{LETTER}")
MIXED_SHARE, LEAST_WORDS = 0.2, 20  # pages of code have up to 0.12


def page_notes(page: np.ndarray, boxes: Iterable[Sides] | None, texts: Iterable[str], *, squeezed: bool) -> list[Note]:
    """``page``: uint8 ``[height, width, 3]``, blue first. ``boxes``: where its blocks are, in pixels; None for a page
    that was read whole. ``texts``: what the VLM read, but for formulas. ``squeezed``: a model saw all of it at once."""
    found = []
    height, width = page.shape[:2]
    times = max(height, width) / min(height, width)
    if squeezed and times > MOST_STRETCHED:
        told = f"the page is {times:.1f} times as long as wide, and small text may be lost; cut it"
        found.append(Note(kind=LONG, message=told))
    texts = [text for text in texts if text.strip()]
    step = max(1, round((height * width / LOOKED_AT) ** 0.5))
    small = np.ascontiguousarray(page[::step, ::step, 1])
    if not texts and (tone := _one_tone(small)):
        return [*found, Note(kind=tone, message=f"the page is {tone}: one tone all over")]
    if min(small.shape) < 2:  # it has no edges both ways
        return found
    along, down = _edges(small)
    if boxes is not None:
        found += _unread(along, boxes, step) + _nonsense(texts)
    if _stands_on_its_side(cv2.bitwise_or(along, down)):
        told = "lines of print run from top to bottom; if the page stands on its side, turn it upright"
        found.append(Note(kind=SIDEWAYS, message=told))
    return found


def _one_tone(small: np.ndarray) -> str:
    """BLANK or DARK; empty where something is on the page."""
    greys = np.bincount(small.ravel(), minlength=256)
    tone = int(np.searchsorted(np.cumsum(greys), greys.sum() / 2))
    if greys[max(0, tone - TONE) : tone + TONE + 1].sum() < (1 - INK) * greys.sum():
        return ""
    return DARK if tone < DARKEST_PAPER else BLANK


def _edges(small: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where letters begin and end along a row, and down a column: uint8 ``[height, width]`` of 0 and 255."""
    pixels = small[1:, 1:]
    along, down = (cv2.absdiff(pixels, before) for before in (small[1:, :-1], small[:-1, 1:]))
    return _over(along, EDGE), _over(down, EDGE)


def _nonsense(texts: Iterable[str]) -> list[Note]:
    """A VLM that sees no print it knows writes digits and signs between the letters of its words."""
    text = MARKS.sub(" ", "\n".join(texts))
    words = [word for word in WORDS.findall(text) if re.search(LETTER, word)]
    if len(words) < LEAST_WORDS or sum(map(bool, map(MIXED.search, words))) < MIXED_SHARE * len(words):
        return []
    told = "what was read looks like no text; see whether the page stands upright and is sharp"
    return [Note(kind=NONSENSE, message=told)]


def _over(values: np.ndarray, least: int) -> np.ndarray:
    """255 where a value is above ``least``, else 0."""
    return cv2.threshold(values, least, 255, cv2.THRESH_BINARY)[1]


def _unread(along: np.ndarray, boxes: Iterable[Sides], step: int) -> list[Note]:
    """Print has many edges along a row. Its cells in no box are joined along rows, and a place counts if a word fits
    into it."""
    height, width = (side // CELL for side in along.shape)
    if not height or not width:
        return []
    mean = cv2.resize(along[: height * CELL, : width * CELL], (width, height), interpolation=cv2.INTER_AREA)
    print_ = (mean >= PRINT * 255 // CELL**2).astype(np.uint8)
    lone, scale = print_.copy(), step * CELL
    for left, top, right, bottom in boxes:
        rows = slice(max(0, int(top / scale) - 1), int(bottom / scale) + 2)
        lone[rows, max(0, int(left / scale) - 1) : int(right / scale) + 2] = 0
    if not lone.any():
        return []
    joined = cv2.morphologyEx(lone, cv2.MORPH_CLOSE, np.ones((1, 3), np.uint8))
    _, numbers, stats, _ = cv2.connectedComponentsWithStats(joined, connectivity=8)
    words = stats[:, cv2.CC_STAT_WIDTH] >= WORD
    words[0] = False  # the ground
    missed = np.bincount(numbers.ravel(), weights=lone.ravel(), minlength=len(stats)) * words
    share = missed.sum() / print_.sum()
    if share < UNREAD_SHARE:
        return []
    left, top, width, height = (int(value) * scale for value in stats[missed.argmax()][:4])
    place = f"{left}, {top}, {left + width}, {top + height}"
    told = f"{share:.0%} of the page's print lies in no block and was not read"
    return [Note(kind=UNREAD, message=f"{told}; the largest place is [{place}] (left, top, right, bottom in pixels)")]


def _stands_on_its_side(ink: np.ndarray) -> bool:
    """Lines of print and the gaps between them make the sums over rows uneven; where they run down the page, those over
    columns. Tiles of the page vote, so that columns of text and pictures have no say."""
    height, width = (side // TILE for side in ink.shape)
    if not height or not width:
        return False
    ink = ink[: height * TILE, : width * TILE]
    over_rows = cv2.resize(ink, (width, height * TILE), interpolation=cv2.INTER_AREA)
    over_columns = cv2.resize(ink, (width * TILE, height), interpolation=cv2.INTER_AREA)
    of_rows = over_rows.reshape(height, TILE, width).astype(np.float32)
    full = of_rows.mean(1) > TILE_INK * 255
    across, down = of_rows.std(1)[full], over_columns.reshape(height, width, TILE).std(2, dtype=np.float32)[full]
    sideways = int((down > SURE * across).sum())
    return sideways >= LEAST_TILES and (across > SURE * down).sum() <= MOST_OTHERS * sideways
