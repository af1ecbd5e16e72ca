# SPDX-License-Identifier: Apache-2.0
"""The crops of a page: 30 sizes that every run uses.

A two-column article on A4 at 200 dpi (1654 x 2339 pixels) with a title block, sixteen paragraphs, three displayed
formulas, a table, two figures with captions, headings, a header and a page number: widths are the column's (760), the
page's text width (1560) or that of a short line, heights a whole number of lines of 33 pixels. Set down by hand.
"""

from __future__ import annotations

# (width, height) in pixels
PAGE = (
    *((1180, 96), (900, 44), (1240, 70), (520, 36), (60, 30)),  # title, authors, affiliations, header, page number
    (1560, 330),  # abstract
    *((760, 132), (760, 198), (760, 198), (760, 264), (760, 264), (760, 297), (760, 330), (760, 330)),
    *((760, 363), (760, 396), (760, 429), (760, 462), (760, 528), (760, 594), (760, 660), (760, 726)),
    *((300, 40), (420, 40), (360, 40)),  # headings
    *((640, 90), (560, 70), (700, 140)),  # formulas
    (1560, 420),  # table
    (760, 560),  # figure
)
# Published preprocessor_config.json.
MIN_PIXELS, MAX_PIXELS, PATCH, MERGE = 147384, 2822400, 14, 2


def grids(count: int = len(PAGE)) -> list[tuple[int, int, int]]:
    """(1, rows, columns) of the first ``count`` crops after resizing by the published rule."""
    from vlm_models.paddleocr_vl.image_processing import smart_resize

    sizes = (smart_resize(height, width, PATCH * MERGE, MIN_PIXELS, MAX_PIXELS) for width, height in PAGE[:count])
    return [(1, height // PATCH, width // PATCH) for height, width in sizes]
