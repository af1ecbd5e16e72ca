# SPDX-License-Identifier: Apache-2.0
"""A picture of the first file: the patch grid over the resized image, and each axis of positions as colours."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from tool_errors import UsageError

from .prepared import Prepared

SIDE = 640  # pixels of a panel's longer side
GAP, LINE = 12, 22


def draw(prepared: Prepared, file: Path) -> None:
    """Write a PNG with one panel for the patches and one for each axis. Raises UsageError."""
    item, (begin, _) = prepared.items[0], prepared.runs[0]
    _, rows, columns = item.grid
    down, across = rows // item.tower.merge, columns // item.tower.merge
    wide, first = item.tokens_of_a_row, begin + item.has_edges
    panels = [("patches, and thicker the tokens", patches(prepared, rows, columns, item.tower.merge))]
    for axis, values in zip(prepared.axes, prepared.positions, strict=True):
        ids = values[first : first + down * wide].reshape(down, wide)[:, :across].numpy()
        panels.append((f"{axis}: {ids.min()} to {ids.max()}", colours(ids, panels[0][1].size)))
    width, height = panels[0][1].size
    sheet = Image.new("RGB", (len(panels) * (width + GAP) + GAP, height + LINE + 2 * GAP), "white")
    pen = ImageDraw.Draw(sheet)
    for index, (title, panel) in enumerate(panels):
        left = GAP + index * (width + GAP)
        pen.text((left, GAP), title, fill="black")
        sheet.paste(panel, (left, GAP + LINE))
    try:
        sheet.save(file, "PNG")
    except OSError as error:
        raise UsageError(f"--picture {file}: cannot be written: {error.strerror or error}") from error


def patches(prepared: Prepared, rows: int, columns: int, merge: int) -> Image.Image:
    """The image under its grid."""
    height, width = prepared.items[0].resized
    scale = SIDE / max(height, width)
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    panel = Image.fromarray(prepared.images[0]).resize(size)
    pen = ImageDraw.Draw(panel)
    for row in range(rows + 1):
        y = row * (size[1] - 1) / rows
        pen.line((0, y, size[0], y), fill=(220, 0, 0) if row % merge == 0 else (255, 170, 170), width=1)
    for column in range(columns + 1):
        x = column * (size[0] - 1) / columns
        pen.line((x, 0, x, size[1]), fill=(220, 0, 0) if column % merge == 0 else (255, 170, 170), width=1)
    return panel


def colours(ids: np.ndarray, size: tuple[int, int]) -> Image.Image:
    """Positions [rows, columns] from blue, the least, to yellow, the most."""
    share = (ids - ids.min()) / max(1, ids.max() - ids.min())
    low, high = np.array([40, 30, 120]), np.array([250, 230, 60])
    values = (low + share[..., None] * (high - low)).astype(np.uint8)
    return Image.fromarray(values).resize(size, Image.Resampling.NEAREST)
