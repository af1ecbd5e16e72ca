# SPDX-License-Identifier: Apache-2.0
"""Lines of print, found by their ink, and the runs of ink in each: letters mostly, or some that touch."""

from __future__ import annotations

import dataclasses
import itertools
import statistics

from PIL import Image

from docparser.places.box import Box

LEAST_CONTRAST = 40  # levels of grey between ground and ink
INK = 0.004  # a row with less of it is empty
THIN, TALL = 0.35, 1.7  # of the usual height: below it are dots and rules, above it lines that touch
SPECK = 1  # px of the picture; a run that is no larger is dirt
MOST_RUNS = 1000  # of a line; more is a pattern
BLANK, SLOPE, STEEPEST = 0.19, 0.05, 6.0  # ems: white that may be both; how fast another is unlikely; and at most
TOUCHING = 1.3  # ems of ink: more is several ideographs
HYPHEN_HEIGHT, HYPHEN_WIDTH = 0.25, 0.15  # of a line's height


@dataclasses.dataclass(frozen=True)
class Line:
    """``runs`` of ink, between which is white, in the order along the line; of a line that runs ``down``, a column of
    vertical writing, from top to bottom. A line of a pattern has none."""

    box: Box
    runs: tuple[Box, ...] = ()
    down: bool = False


def lines_in(picture: Image.Image, box: Box, scale: float, *, down: bool = False) -> list[Line]:
    """The lines in ``box``, from top to bottom (columns, if they run ``down``, from right to left), in the box's
    pixels. ``picture`` is grey and ``scale`` times as large as the page that the box belongs to. Empty where nothing
    can be told."""
    frame = (
        max(0, round(box.left * scale)),
        max(0, round(box.top * scale)),
        min(picture.width, round(box.right * scale)),
        min(picture.height, round(box.bottom * scale)),
    )
    if frame[2] - frame[0] < 4 or frame[3] - frame[1] < 4:
        return []
    crop = picture.crop(frame)
    ink = _ink(crop.transpose(Image.Transpose.ROTATE_90) if down else crop)
    if ink is None:
        return []

    def on_page(left: int, top: int, right: int, bottom: int) -> Box:
        if down:  # columns are rows of the picture that lies on its side
            left, top, right, bottom = crop.width - bottom, left, crop.width - top, right
        return Box(
            (frame[0] + left) / scale,
            (frame[1] + top) / scale,
            (frame[0] + right) / scale,
            (frame[1] + bottom) / scale,
        )

    lines = []
    for top, bottom in _bodies([mean > 255 * INK for mean in _means(ink, (1, ink.height))]):
        strip = ink.crop((0, top, ink.width, bottom))
        inside = strip.getbbox()
        left, right = (inside[0], inside[2]) if inside else (0, ink.width)
        runs = [on_page(first, top + above, last, top + below) for first, above, last, below in _runs(strip)]
        lines.append(Line(on_page(left, top, right, bottom), tuple(runs), down))
    return lines


def _means(ink: Image.Image, size: tuple[int, int]) -> memoryview[float]:
    """Of rows or of columns, as 32-bit float: of 8 bits, a short line in a wide box would leave nothing."""
    return memoryview(ink.convert("F").resize(size, Image.Resampling.BOX).tobytes()).cast("f")


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


def _stretches(inked: list[bool]) -> list[list[int]]:
    """First and last (exclusive) of each stretch that is inked."""
    found: list[list[int]] = []
    for at, has in enumerate(inked):
        if has and found and found[-1][1] == at:
            found[-1][1] = at + 1
        elif has:
            found.append([at, at + 1])
    return found


def _runs(strip: Image.Image) -> list[tuple[int, int, int, int]]:
    """Of a line: left, top, right, bottom of each."""
    found = []
    for first, last in _stretches([mean > 0 for mean in _means(strip, (strip.width, 1))]):
        inside = strip.crop((first, 0, last, strip.height)).getbbox()
        if inside and max(last - first, inside[3] - inside[1]) > SPECK:
            found.append((first, inside[1], last, inside[3]))
    return found if len(found) <= MOST_RUNS else []


def _bodies(inked: list[bool]) -> list[tuple[int, int]]:
    """Rows of ink as lines: dots join their line, lines that touch are cut into equal parts."""
    stretches = _stretches(inked)
    if not stretches:
        return []
    usual = statistics.median(sorted(end - begin for begin, end in stretches)[len(stretches) // 2 :])
    whole: list[list[int]] = []
    for begin, end in stretches:
        thin = end - begin < THIN * usual
        if whole and begin - whole[-1][1] < THIN * usual and (thin or whole[-1][1] - whole[-1][0] < THIN * usual):
            whole[-1][1] = end  # the dots of a line above it, or its marks below it
        else:
            whole.append([begin, end])
    kept = [body for body in whole if body[1] - body[0] >= THIN * usual] or whole
    height = statistics.median(end - begin for begin, end in kept)
    lines = []
    for begin, end in kept:
        parts = max(1, round((end - begin) / height)) if end - begin > TALL * height else 1
        lines += [
            (begin + (end - begin) * part // parts, begin + (end - begin) * (part + 1) // parts)
            for part in range(parts)
        ]
    return lines


@dataclasses.dataclass(frozen=True)
class Row:
    """``low``, ``high``: of each run of ink, ems; ``boxes``: of each, on the page. ``before``: how unlikely the white
    before each is between two words; ``inside``: how unlikely all white up to each is within words. ``ems``: of the
    line; ``hyphen``: it ends in a stroke that may be one."""

    low: list[float]
    high: list[float]
    boxes: list[Box]
    before: list[float]
    inside: list[float]
    ems: float
    hyphen: bool


def row_of(line: Line, em: float, *, ideographs: bool, backwards: bool) -> Row:
    """``em``: pixels. ``ideographs``: there are some in the text; ``backwards``: it runs from right to left."""
    boxes = [part for run in line.runs for part in (_parts(run, line.down, em) if ideographs else [run])]
    ends = [(box.top, box.bottom) if line.down else (box.left, box.right) for box in boxes]
    if backwards:
        boxes, ends = boxes[::-1], [(-high, -low) for low, high in reversed(ends)]
    low, high = [end[0] / em for end in ends], [end[1] / em for end in ends]
    before, inside = [0.0] * len(ends), [0.0] * len(ends)
    for at in range(1, len(ends)):
        gap = low[at] - high[at - 1]
        before[at] = _unlikely(BLANK - gap)
        inside[at] = inside[at - 1] + _unlikely(gap - BLANK)
    return Row(low, high, boxes, before, inside, length(line) / em, _hyphen(line))


def length(line: Line) -> float:
    """Pixels along the line."""
    return line.box.height if line.down else line.box.width


def _parts(run: Box, down: bool, em: float) -> list[Box]:
    """Ideographs that touch, apart."""
    along = (run.height if down else run.width) / em
    parts = round(along) if along > TOUCHING else 1
    return cut(run, [at / parts for at in range(parts + 1)], down)


def cut(box: Box, shares: list[float], down: bool) -> list[Box]:
    """The parts of ``box`` between ``shares`` of its length, which rise from 0 to 1."""
    if down:
        ends = [box.top + share * box.height for share in shares]
        return [Box(box.left, top, box.right, bottom) for top, bottom in zip(ends, ends[1:])]
    ends = [box.left + share * box.width for share in shares]
    return [Box(left, box.top, right, box.bottom) for left, right in zip(ends, ends[1:])]


def _unlikely(ems: float) -> float:
    return min((ems / SLOPE) ** 2, STEEPEST) if ems > 0 else 0.0


def _hyphen(line: Line) -> bool:
    if line.down or len(line.runs) < 2:
        return False
    last, height = line.runs[-1], line.box.height
    flat = last.height <= HYPHEN_HEIGHT * height and last.width >= max(HYPHEN_WIDTH * height, 1.2 * last.height)
    middle = (last.top + last.bottom) / 2
    return flat and line.box.top + 0.25 * height < middle < line.box.bottom - 0.2 * height
