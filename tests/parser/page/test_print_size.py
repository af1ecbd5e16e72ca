# SPDX-License-Identifier: Apache-2.0
"""A picture of print gets as many pixels as its lines need: they are as high as asked for, and nothing is lost."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image, ImageDraw

from docparser.page.question import LEAST_PIXELS, MOST_PIXELS, QUALITY, Question
from print_size import GAIN, INK, LEAST, TILE, fitted, line_height
from tests.support.fonts import font

WORDS = "The pump was changed by Ghislaine in July, and the quality of the water has been good since. "
BOUNDS = LEAST_PIXELS, MOST_PIXELS


def print_of(size: int, lines: int, *, degrees: float = 0.0, paper: int = 255, margin: int = 4) -> np.ndarray:
    """uint8 [height, width, 3]: lines of some fifty letters, set in ``size`` px."""
    face = font(size)
    texts = [(WORDS * 3)[7 * number : 7 * number + 50] for number in range(lines)]
    width = round(max(face.getlength(text) for text in texts)) + 2 * margin
    image = Image.new("L", (width, round(1.3 * size * lines) + 2 * margin), 255)
    draw = ImageDraw.Draw(image)
    for number, text in enumerate(texts):
        draw.text((margin, margin + round(1.3 * size * number)), text, fill=0, font=face)
    if degrees:
        image = image.rotate(degrees, Image.Resampling.BICUBIC, expand=True, fillcolor=255)
    grey = np.asarray(image)
    return np.repeat((grey if paper == 255 else 255 - grey)[:, :, None], 3, axis=2)


def inked(picture: np.ndarray) -> np.ndarray:
    grey = picture[:, :, 0].astype(int)
    return np.abs(grey - int(np.median(grey))) > INK


def form(ink: np.ndarray) -> float:
    """How many times as wide as high it is."""
    return float(np.ptp(np.flatnonzero(ink.any(axis=0))) / np.ptp(np.flatnonzero(ink.any(axis=1))))


def published(picture: np.ndarray) -> int:
    """Pixels of it between the bounds."""
    return min(max(picture.shape[0] * picture.shape[1], BOUNDS[0]), BOUNDS[1])


@pytest.mark.parametrize("size", [12, 20, 42, 84])
@pytest.mark.parametrize(("lines", "changes"), [(1, {}), (5, {}), (5, {"degrees": 1.5}), (3, {"paper": 0})])
def test_lines_are_measured(size: int, lines: int, changes: dict):
    ascent, descent = font(size).getbbox("dg")[1::2]
    found = line_height(inked(print_of(size, lines, **changes)))
    assert found is not None and 0.7 <= found / (descent - ascent) <= 1.3


def ruled(lines: np.ndarray) -> np.ndarray:
    """The same in a table of 25 columns and a line in each row."""
    height, width = lines.shape[:2]
    lines = lines.copy()
    for column in range(0, width, width // 25):
        lines[:, column : column + 2] = 0
    return lines


def touching(lines: np.ndarray) -> np.ndarray:
    """Lines so close that one's descenders reach into the next: no row is white."""
    found = lines.copy()
    for rows in (10, 20):
        found[rows:] = np.minimum(found[rows:], lines[:-rows])
    assert np.all(inked(found).max(axis=1)[20:-20])
    return found


@pytest.mark.parametrize("spoilt", [ruled, touching])
def test_where_no_row_is_white_print_is_not_made_too_small(spoilt: Callable[[np.ndarray], np.ndarray]):
    picture = print_of(24, 12)
    right, found = line_height(inked(picture)), line_height(inked(spoilt(picture)))
    assert right is not None and found is not None and found <= 2 * right
    fit = fitted(spoilt(picture), 24, *BOUNDS)
    assert fit is None or fit.shape[0] > 0.5 * picture.shape[0]


@pytest.mark.parametrize("line", [18, 24, 32])
@pytest.mark.parametrize(("size", "lines"), [(20, 1), (20, 4), (42, 1), (42, 12), (84, 3)])
def test_lines_become_as_high_as_asked_for(size: int, lines: int, line: int):
    picture = print_of(size, lines)
    fit = fitted(picture, line, *BOUNDS)
    if fit is None:
        # Only where nothing would be gained.
        found = line_height(inked(picture))
        assert found is not None and picture.size / 3 * (line / found) ** 2 > 0.75 * published(picture)
        return
    height, width = fit.shape[:2]
    assert height % TILE == width % TILE == 0 and height * width <= GAIN * published(picture)
    found = line_height(inked(fit))
    assert found is not None and 0.8 <= found / line <= 1.25
    was, now = (form(inked(one)) for one in (picture, fit))
    assert now == pytest.approx(was, rel=0.12), "letters keep their form"


def test_a_paragraph_of_a_scan_and_a_short_line_cost_a_fraction():
    for picture, part in ((print_of(60, 8), 0.4), (print_of(20, 1), 0.4)):
        fit = fitted(picture, 24, *BOUNDS)
        assert fit is not None and fit.shape[0] * fit.shape[1] < part * published(picture)


def test_blank_margins_go_and_their_paper_fills_the_rest():
    fit, tight = (fitted(print_of(60, 6, margin=margin), 24, *BOUNDS) for margin in (300, 12))
    assert fit is not None and tight is not None
    assert abs(fit.shape[0] - tight.shape[0]) <= TILE and abs(fit.shape[1] - tight.shape[1]) <= TILE
    assert (fit[[0, -1]] == 255).all() and (fit[:, [0, -1]] == 255).all()


def test_faint_print_at_the_edge_is_not_cut_off():
    picture = print_of(60, 6, margin=300)
    faint = picture.copy()
    stamp = print_of(60, 1)[:, :600]
    faint[10 : 10 + len(stamp), 40:640] = np.maximum(stamp, 215)
    tight, whole = (fitted(one, 24, *BOUNDS) for one in (picture, faint))
    assert tight is not None and whole is not None and whole.shape[0] > tight.shape[0] + 2 * TILE


@pytest.mark.parametrize("size", [10, 14])
def test_a_page_number_keeps_some_pixels(size: int):
    picture = np.full((30, 40, 3), 255, np.uint8)
    image = Image.fromarray(picture)
    ImageDraw.Draw(image).text((8, 6), "12", fill=0, font=font(size))
    fit = fitted(np.asarray(image), 18, *BOUNDS)
    assert fit is not None and 0.8 * LEAST <= fit.shape[0] * fit.shape[1] <= 3 * LEAST


def test_what_has_no_lines_stays_as_it_is():
    blank = np.full((80, 300, 3), 240, np.uint8)
    rule = blank.copy()
    rule[40:43] = 0
    for picture in (blank, rule, blank[:1, :1]):
        assert fitted(picture, 24, *BOUNDS) is None


def question(prompt: str = "OCR:", least: int = LEAST_PIXELS, most: int = MOST_PIXELS) -> Question:
    return Question(print_of(60, 8), prompt, least, most)


@pytest.mark.parametrize("prompt", ["OCR:", "Table Recognition:"])
def test_the_vlm_gets_the_smaller_picture_as_it_is(prompt: str):
    asked = question(prompt).with_lines_of(24)
    pixels = asked.picture.shape[0] * asked.picture.shape[1]
    assert pixels < 0.5 * published(question().picture)
    assert asked.least_pixels <= pixels <= asked.most_pixels == MOST_PIXELS
    assert asked.prompt == prompt and asked.quality > QUALITY


@pytest.mark.parametrize(
    "kept",
    [
        question("Formula Recognition:"),
        question("Chart Recognition:"),
        question("Spotting:"),
        question(least=147_384, most=2_822_400),
        question(least=50_000),
        question(most=500_000),
    ],
    ids=lambda asked: f"{asked.prompt} {asked.least_pixels} to {asked.most_pixels}",
)
def test_other_kinds_and_bounds_of_the_request_are_kept(kept: Question):
    assert kept.with_lines_of(24) is kept


def test_small_print_is_not_enlarged_beyond_what_the_vlm_would():
    picture = print_of(8, 12)
    fit = fitted(picture, 48, *BOUNDS)
    assert fit is None, "12 lines of 8 px: the bounds enlarge them to less than 48"
    assert dataclasses.replace(question(), picture=picture).with_lines_of(48).picture is picture
