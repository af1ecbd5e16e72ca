# SPDX-License-Identifier: Apache-2.0
"""Why a page's own text is not taken. The one list of reasons."""

from __future__ import annotations

import enum


class Doubt(enum.StrEnum):
    """A value is what answers and metrics call the reason. A block without doubts is true."""

    EMPTY = "empty"  # the page says nothing there
    TOO_MUCH = "too_much"  # the page has more characters than are read
    INVISIBLE = "invisible"  # said not to be drawn: mode 3 or 7, or no opacity; OCR of another's making is like this
    TINY = "tiny"  # too small to be seen, or to be checked
    NO_INK = "no_ink"  # nothing is seen where a glyph should be: white on white, covered, clipped
    OTHER_INK = "other_ink"  # print, or a drawing, that the text does not account for
    UNMAPPED = "unmapped"  # private use, U+FFFD, control characters, (cid:1), codes without a character
    MIXED_SCRIPTS = "mixed_scripts"  # letters of two alphabets in a word
    SHAPES = "shapes"  # what is seen has another shape than the characters have: a shuffled map, a cover
    UNPROVEN = "unproven"  # characters whose shapes this service does not know
    DIRECTIONS = "directions"  # lines that run in several directions, or on a slant
