# SPDX-License-Identifier: Apache-2.0
"""Where lines of text lie in a box of a page's picture: rows that hold ink, between rows that hold none."""

from __future__ import annotations

import itertools
import statistics

from PIL import Image

from docparser.convert.page_blocks import Box

LEAST_CONTRAST = 40  # levels of grey between ground and ink
INK = 0.004  # a row with less of it is empty
THIN, TALL = 0.35, 1.7  # of the usual height: below it are dots and rules, above it lines that touch


def ink_lines(picture: Image.Image, box: Box, scale: float) -> list[Box]:
    """The lines in ``box``, from top to bottom, in the box's pixels. ``picture`` is grey and ``scale`` times as large
    as the page that the box belongs to. Empty where nothing can be told."""
    frame = (
        max(0, round(box.left * scale)),
        max(0, round(box.top * scale)),
        min(picture.width, round(box.right * scale)),
        min(picture.height, round(box.bottom * scale)),
    )
    if frame[2] - frame[0] < 4 or frame[3] - frame[1] < 4:
        return []
    ink = _ink(picture.crop(frame))
    if ink is None:
        return []
    # Each row's mean as 32-bit float: of 8 bits, a short line in a wide box would leave nothing.
    rows = ink.convert("F").resize((1, ink.height), Image.Resampling.BOX).tobytes()
    means = memoryview(rows).cast("f")
    lines = []
    for top, bottom in _runs([mean > 255 * INK for mean in means]):
        inside = ink.crop((0, top, ink.width, bottom)).getbbox()
        left, right = (inside[0], inside[2]) if inside else (0, ink.width)
        lines.append(
            Box(
                (frame[0] + left) / scale,
                (frame[1] + top) / scale,
                (frame[0] + right) / scale,
                (frame[1] + bottom) / scale,
            )
        )
    return lines


def _ink(crop: Image.Image) -> Image.Image | None:
    """White where there is ink; None where the crop has no contrast. Text may be dark or bright."""
    levels = crop.histogram()
    half, sums = crop.width * crop.height / 2, itertools.accumulate(levels)
    ground = next(level for level, seen in enumerate(sums) if seen >= half)
    used = [level for level, count in enumerate(levels) if count]
    contrast = max(ground - used[0], used[-1] - ground)
    if contrast < LEAST_CONTRAST:
        return None
    return crop.point([255 if abs(level - ground) > contrast * 0.4 else 0 for level in range(256)])


def _runs(inked: list[bool]) -> list[tuple[int, int]]:
    """Rows of ink as lines: dots join their line, lines that touch are cut into equal parts."""
    runs: list[list[int]] = []
    for row, has in enumerate(inked):
        if has and runs and runs[-1][1] == row:
            runs[-1][1] = row + 1
        elif has:
            runs.append([row, row + 1])
    if not runs:
        return []
    usual = statistics.median(sorted(end - begin for begin, end in runs)[len(runs) // 2 :])
    whole: list[list[int]] = []
    for begin, end in runs:
        thin = end - begin < THIN * usual
        if whole and begin - whole[-1][1] < THIN * usual and (thin or whole[-1][1] - whole[-1][0] < THIN * usual):
            whole[-1][1] = end  # the dots of a line above it, or its marks below it
        else:
            whole.append([begin, end])
    kept = [run for run in whole if run[1] - run[0] >= THIN * usual] or whole
    height = statistics.median(end - begin for begin, end in kept)
    lines = []
    for begin, end in kept:
        parts = max(1, round((end - begin) / height)) if end - begin > TALL * height else 1
        lines += [
            (begin + (end - begin) * part // parts, begin + (end - begin) * (part + 1) // parts)
            for part in range(parts)
        ]
    return lines
