# SPDX-License-Identifier: Apache-2.0
"""How wide text is, whatever its typeface."""

from __future__ import annotations

import unicodedata

UNITS = 1000  # of the em
# Means of common serif and sans-serif faces.
GROUPS = {
    "ijl'|": 250,
    "ftI,.:;!/\\` ": 285,
    'r()[]{}-"': 340,
    "cksvxyzJ?*": 475,
    "abdeghnopqu0123456789#$": 525,
    "+<=>~_^": 580,
    "EFLPSTZ": 600,
    "ABCDGHKNOQRUVXYw&": 705,
    "mMW%@": 850,
}
KNOWN = {character: units for group, units in GROUPS.items() for character in group}
NOTHING, CAPITAL, OTHER, BROAD = 50, 680, 530, 1000


def width(character: str) -> int:
    """An advance that is near to that of common typefaces, in thousandths of the em."""
    if character in KNOWN:
        return KNOWN[character]
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return NOTHING  # of what has no advance at all, PDFium leaves the Unicode out
    if unicodedata.east_asian_width(character) in "WF":
        return BROAD
    return CAPITAL if character.isupper() else OTHER


def text_width(text: str) -> float:
    """In ems."""
    return sum(map(width, text)) / UNITS
