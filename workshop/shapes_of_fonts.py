# SPDX-License-Identifier: Apache-2.0
"""Makes the table of glyph shapes that a page's own text is held against (``docparser.own_text.shapes``).

    PYTHONPATH=.:parser .venvs/parser/bin/python -m workshop.shapes_of_fonts FOLDER...

FOLDER holds the files of fonts that ``ALPHABETS`` and ``IDEOGRAPHS`` name, as Debian's packages ``fonts-liberation``,
``fonts-dejavu``, ``fonts-lmodern``, ``fonts-texgyre``, ``fonts-crosextra-carlito``, ``fonts-crosextra-caladea``,
``fonts-noto-core``, ``fonts-noto-cjk``, ``fonts-wqy-microhei`` and ``fonts-arphic-gbsn00lp`` unpack them. Of each
glyph the table keeps how much ink lies in each part of its box, and where the box stands: no outline can be had back.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image, ImageFont

from docparser.own_text.shapes import LEVELS, SHAPE, TABLE, UNITS, ZONES, Shapes, distances

EM = 96  # pixels
ALPHABETS = [
    *(f"Liberation{name}.ttf" for name in ("Sans-Regular", "Sans-Bold", "Sans-Italic", "Serif-Regular", "Serif-Bold")),
    *(f"Liberation{name}.ttf" for name in ("Serif-Italic", "Serif-BoldItalic", "Mono-Regular", "Mono-Bold")),
    "LiberationMono-BoldItalic.ttf",
    *(f"DejaVu{name}.ttf" for name in ("Sans", "Sans-Bold", "Serif", "Serif-Bold", "SansMono", "SansMono-Bold")),
    *(f"lm{name}.otf" for name in ("roman10-regular", "roman10-bold", "roman10-italic", "roman6-regular")),
    *(f"lm{name}.otf" for name in ("mono10-regular", "mono10-italic", "sans10-regular", "sans10-bold")),
    *(f"lm{name}.otf" for name in ("monoslant10-regular", "romanslant10-regular", "romanslant10-bold")),
    *(f"Noto{name}.ttf" for name in ("Sans-Regular", "Sans-Bold", "Serif-Regular", "Serif-Italic")),
    *(f"texgyre{name}-regular.otf" for name in ("heros", "termes", "cursor", "pagella", "adventor", "bonum")),
    *(f"texgyre{name}.otf" for name in ("heros-bold", "cursor-bold", "pagella-italic", "schola-regular")),
    *(f"{name}.ttf" for name in ("Carlito-Regular", "Carlito-Bold", "Caladea-Regular", "Caladea-Italic")),
]
IDEOGRAPHS = [
    *(f"Noto{name}.ttc" for name in ("SerifCJK-Regular", "SansCJK-Regular", "SerifCJK-Bold", "SansCJK-Bold")),
    "gbsn00lp.ttf",
    "wqy-microhei.ttc",
]
SIMPLIFIED = {"Serif": 2, "Sans": 2}  # the face of Noto's collections: Japanese, Korean, simplified Chinese, ...
# Of each set, the last code of the characters in common use; the ideographs after it are rare ones.
COMMON = {"gb2312": b"\xff\xff", "big5": b"\xc6\x7e", "shift_jis": b"\x98\x72", "euc_kr": b"\xc8\xfe"}
# Signs that both kinds of fonts have, and those of ideographs draw otherwise: an ellipsis in the middle of the line.
SIGNS = [0xB7, *range(0x2013, 0x2016), *range(0x2018, 0x201E), 0x2025, 0x2026]
MOST_OF_A_LETTER, MOST_OF_AN_IDEOGRAPH = 14, 2
ALIKE = 0.06  # a shape as near to one that is kept tells nothing new


def letters() -> list[int]:
    """Latin, Greek, Cyrillic, punctuation, currencies, letter-like signs, arrows, operators, boxes, ligatures."""
    ranges = [
        (0x21, 0x7F),
        (0xA1, 0x180),
        (0x391, 0x3CA),
        (0x400, 0x460),
        (0x2010, 0x2028),
        (0x2030, 0x203F),
        (0x20A0, 0x20C0),
        (0x2100, 0x2140),
        (0x2190, 0x21D5),
        (0x2200, 0x2270),
        (0x25A0, 0x25D0),
        (0x2713, 0x2718),
        (0xFB00, 0xFB05),
    ]
    return [code for first, end in ranges for code in range(first, end) if code != 0xAD]


def ideographs() -> list[int]:
    """What the national character sets of China, Taiwan, Japan and Korea hold for common use, beside the alphabets."""
    found: set[int] = set()
    for codec, last in COMMON.items():
        for code in (*range(0x2460, 0x2474), *range(0x3001, 0xA000), *range(0xAC00, 0xD7A4), *range(0xFF01, 0xFFE6)):
            encoded = chr(code).encode(codec, "ignore")
            if (len(encoded) == 2 and encoded <= last) or len(encoded) == 1:
                found.add(code)
    return sorted(found)


def shape(font: ImageFont.FreeTypeFont, code: int, missing: bytes) -> np.ndarray | None:
    """A row of SHAPE; None for a glyph that the font lacks, or that draws nothing."""
    text = chr(code)
    _, top, _, _ = (round(side) for side in font.getbbox(text, anchor="ls"))
    mask = font.getmask(text)
    if 0 in mask.size or bytes(mask) == missing:
        return None
    picture = Image.frombytes("L", mask.size, bytes(mask))
    edges = picture.getbbox()  # the mask reaches down to the baseline, also under a glyph that stands above it
    if edges is None:
        return None
    zones = np.asarray(picture.crop(edges).convert("F").resize((ZONES, ZONES), Image.Resampling.BOX))
    row = np.zeros(1, SHAPE)
    row["code"] = code
    row["zones"] = np.rint(zones.reshape(-1) / zones.max() * LEVELS)
    place = np.array([-top - edges[1], -top - edges[3], edges[2] - edges[0]])
    row["place"] = np.clip(np.rint(place / EM * UNITS), -128, 127)
    return row


def shapes_of(files: dict[str, Path], names: list[str], codes: list[int], most: int) -> Iterator[np.ndarray]:
    fonts = []
    for name in names:
        face = next((number for part, number in SIMPLIFIED.items() if f"Noto{part}CJK" in name), 0)
        font = ImageFont.truetype(str(files[name]), EM, index=face)
        fonts.append((font, bytes(font.getmask("\U000f1234"))))
    for code in codes:
        kept: list[np.ndarray] = []
        for font, missing in fonts:
            row = shape(font, code, missing)
            if row is None or len(kept) == most:
                continue
            if not kept or distances(Shapes.of(row), Shapes.of(np.concatenate(kept))).min() > ALIKE:
                kept.append(row)
        yield from kept


def main() -> None:
    files = {path.name: path for folder in sys.argv[1:] for path in Path(folder).rglob("*.[ot]t[fc]")}
    if lacking := [name for name in (*ALPHABETS, *IDEOGRAPHS) if name not in files]:
        sys.exit(f"FOLDER: no {', '.join(lacking)} in it; unpack the packages that the head of this file names")
    rows = [
        *shapes_of(files, ALPHABETS, letters(), MOST_OF_A_LETTER),
        *shapes_of(files, IDEOGRAPHS, ideographs(), MOST_OF_AN_IDEOGRAPH),
        *shapes_of(files, IDEOGRAPHS, SIGNS, MOST_OF_A_LETTER),
    ]
    table = np.concatenate(rows)
    table = table[np.argsort(table["code"], kind="stable")]
    zones = table["zones"]
    packed = zones[:, ::2] << 4 | zones[:, 1::2]
    np.savez_compressed(TABLE, code=table["code"], zones=packed, place=table["place"])
    print(f"{len(table)} shapes of {len(np.unique(table['code']))} characters, {TABLE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
