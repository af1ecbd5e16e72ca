# SPDX-License-Identifier: Apache-2.0
"""Pictures and charts for the pages."""

from __future__ import annotations

import math
import random

import numpy as np
from PIL import Image, ImageDraw

from ..drawing.block import Colour, any_colour
from ..drawing.fonts import CORE
from ..drawing.words import TextSource


def _clouds(width: int, height: int, rng: random.Random) -> Image.Image:
    """Smooth colour noise, the nearest that drawing comes to a photograph."""
    generator = np.random.default_rng(rng.randrange(2**32))
    total = np.zeros((height, width, 3), np.float32)
    for step in (3, 7, 17, 41):
        coarse = generator.integers(0, 256, (step, step, 3), dtype=np.uint8)
        layer = Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)
        total += np.asarray(layer, np.float32) / step
    total -= total.min()
    return Image.fromarray((total * (250 / max(total.max(), 1e-6))).astype(np.uint8))


def _landscape(width: int, height: int, rng: random.Random) -> Image.Image:
    image = Image.new("RGB", (width, height), any_colour(rng, 130, 235))
    draw = ImageDraw.Draw(image)
    for layer in range(rng.randint(2, 4)):
        base = height * (0.3 + 0.2 * layer)
        phase, waves, swing = rng.random() * 6, rng.uniform(1, 4), height * rng.uniform(0.05, 0.2)
        ridge = [
            (x, base + swing * math.sin(phase + waves * 6.283 * x / width) * math.cos(x / width * 3 + phase))
            for x in range(0, width + 8, 8)
        ]
        draw.polygon([(0, height), *ridge, (width, height)], fill=any_colour(rng, 20, 190))
    radius = min(width, height) * rng.uniform(0.05, 0.12)
    x, y = width * rng.uniform(0.15, 0.85), height * 0.2
    draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=any_colour(rng, 190, 255))
    return image


def _diagram(width: int, height: int, rng: random.Random) -> Image.Image:
    image = Image.new("RGB", (width, height), rng.choice([(255, 255, 255), (244, 246, 250)]))
    draw = ImageDraw.Draw(image)
    columns, rows = rng.randint(2, 4), rng.randint(1, 3)
    cell_w, cell_h = width / columns, height / rows
    shape = rng.choice(["rectangle", "ellipse"])
    centres = []
    for row in range(rows):
        for column in range(columns):
            x, y = (column + 0.5) * cell_w, (row + 0.5) * cell_h
            centres.append((x, y))
            box = (x - 0.3 * cell_w, y - 0.3 * cell_h, x + 0.3 * cell_w, y + 0.3 * cell_h)
            getattr(draw, shape)(box, fill=any_colour(rng, 120, 240), outline=(40, 40, 40), width=2)
    for (x0, y0), (x1, y1) in zip(centres, centres[1:]):
        if y0 == y1:
            draw.line((x0 + 0.3 * cell_w, y0, x1 - 0.3 * cell_w, y1), fill=(40, 40, 40), width=3)
    draw.rectangle((0, 0, width - 1, height - 1), outline=(90, 90, 90), width=2)
    return image


def picture(width: int, height: int, rng: random.Random) -> Image.Image:
    """An RGB picture of ``width`` x ``height`` px."""
    return rng.choice([_clouds, _landscape, _landscape, _diagram])(width, height, rng)


def chart(width: int, height: int, rng: random.Random, source: TextSource, paper: Colour) -> Image.Image:
    """A bar, line or pie chart with axis labels, on ``paper``."""
    image = Image.new("RGB", (width, height), paper)
    draw = ImageDraw.Draw(image)
    size = max(11, min(20, height // 16))
    font = rng.choice(CORE).at(size)
    kind = rng.choice(["bar", "line", "pie", "bar"])
    if kind == "pie":
        radius = 0.45 * min(width, height)
        x, y, start = width * 0.4, height / 2, 0.0
        for _ in range(rng.randint(3, 6)):
            sweep = rng.uniform(40, 100)
            box = (x - radius, y - radius, x + radius, y + radius)
            draw.pieslice(box, start, min(360, start + sweep), fill=any_colour(rng), outline=(255, 255, 255))
            start += sweep
        draw.pieslice((x - radius, y - radius, x + radius, y + radius), min(start, 359), 360, fill=any_colour(rng))
        for row in range(4):
            top = height * 0.25 + row * size * 1.6
            draw.rectangle((width - 6 * size, top, width - 5.2 * size, top + 0.8 * size), fill=any_colour(rng))
            draw.text((width - 4.8 * size, top - 2), source.word()[:7], fill=(40, 40, 40), font=font)
        return image
    left, bottom = 4 * size, height - 2 * size
    axis = (60, 60, 60)
    for tick in range(5):
        y = bottom - tick * (bottom - size) / 4
        draw.line((left, y, width - 4, y), fill=(205, 205, 205))
        draw.text((left - 6, y), str(tick * rng.choice([10, 25, 50])), fill=axis, font=font, anchor="rm")
    draw.line((left, size / 2, left, bottom, width - 4, bottom), fill=axis, width=2)
    count = rng.randint(4, 9)
    step = (width - left - 8) / count
    for series in range(rng.randint(1, 2)):
        colour = any_colour(rng)
        heights = [rng.uniform(0.1, 0.98) * (bottom - size) for _ in range(count)]
        points = [(left + step * (index + 0.5), bottom - value) for index, value in enumerate(heights)]
        if kind == "bar":
            half = step * 0.18
            for x, y in points:
                x += (series - 0.5) * 2 * half
                draw.rectangle((x - half, y, x + half, bottom), fill=colour)
        else:
            draw.line(points, fill=colour, width=3)
            for x, y in points:
                draw.ellipse((x - 4, y - 4, x + 4, y + 4), fill=colour)
    for index in range(count):
        draw.text((left + step * (index + 0.5), bottom + 6), f"{index + 1}", fill=axis, font=font, anchor="mt")
    return image
