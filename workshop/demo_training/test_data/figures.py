# SPDX-License-Identifier: Apache-2.0
"""The two figures: a bar chart and a picture."""

from __future__ import annotations

from PIL import Image, ImageDraw

from .sheet import GREY, face


def bars(width: int, height: int) -> Image.Image:
    """Failed wells by month."""
    image = Image.new("RGB", (width, height), (255, 255, 255))
    draw = ImageDraw.Draw(image)
    font = face("Liberation Sans").at(18)
    left, bottom = 44, height - 34
    for value in range(0, 17, 4):
        y = bottom - value * (bottom - 16) / 16
        draw.line((left, y, width - 6, y), fill=(214, 214, 220))
        draw.text((left - 10, y), str(value), fill=GREY, font=font, anchor="rm")
    months = "JFMAMJJASOND"
    step = (width - left - 12) / 12
    for index, (month, value) in enumerate(zip(months, (2, 1, 2, 3, 5, 15, 11, 8, 7, 6, 3, 2))):
        x = left + 6 + index * step
        top = bottom - value * (bottom - 16) / 16
        draw.rectangle((x + 5, top, x + step - 5, bottom), fill=(62, 116, 168) if value < 9 else (190, 84, 60))
        draw.text((x + step / 2, bottom + 8), month, fill=GREY, font=font, anchor="mt")
    draw.line((left, 10, left, bottom, width - 6, bottom), fill=(60, 60, 66), width=2)
    return image


def loaf(width: int, height: int) -> Image.Image:
    """A loaf on a board."""
    image = Image.new("RGB", (width, height), (233, 224, 205))
    draw = ImageDraw.Draw(image)
    for row in range(height):
        shade = row / height
        draw.line((0, row, width, row), fill=(int(206 - 40 * shade), int(214 - 30 * shade), int(218 - 50 * shade)))
    draw.rectangle((0, int(height * 0.66), width, height), fill=(150, 108, 70))
    for y in range(int(height * 0.7), height, 16):
        draw.line((0, y, width, y - 8), fill=(132, 92, 58), width=2)
    box = (int(width * 0.2), int(height * 0.22), int(width * 0.8), int(height * 0.86))
    draw.ellipse(box, fill=(158, 98, 46))
    inner = (box[0] + 14, box[1] + 8, box[2] - 14, box[3] - 26)
    draw.ellipse(inner, fill=(190, 128, 66))
    for cut in range(4):
        x = inner[0] + (inner[2] - inner[0]) * (0.24 + 0.15 * cut)
        draw.line((x, inner[1] + 0.62 * height * 0.5, x + 60, inner[1] + 0.14 * height), fill=(240, 214, 160), width=9)
    return image
