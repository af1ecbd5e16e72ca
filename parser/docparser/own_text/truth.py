# SPDX-License-Identifier: Apache-2.0
"""Whether a page's own text is true: each character by the picture, the map and the shapes of its font, then blocks.

A character is held against three things. There must be ink in its box. What is seen there must have the shape of this
character in some plain font (``shapes``): of one glyph that proves little, of all glyphs of a font it is decisive. And
it must look like the others of its kind on the page, for a cover hides some and not all.
"""

from __future__ import annotations

import enum
import unicodedata

import cv2
import numpy as np

from docparser.own_text.characters import PIECE, UNMAPPED, Characters
from docparser.own_text.shapes import IDEOGRAPHS, Ink, Shapes, pairwise, table


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


UNDRAWN = (3, 7)  # text rendering modes (ISO 32000-2, 9.3.6)
LEAST_OPACITY = 26  # of 255
LEAST_EM = 7.0  # pixels; smaller print cannot be told apart
MOST_SLANT = 2.0  # degrees
LEAST_INK = 32  # levels of grey in the blackest part of a glyph

# Distances of ``shapes``; the figures behind them are in decision 0237.
SUSPECT = 0.17  # above it, the other characters are looked at too
# As far from its own character, and as many times nearer to another: another one. Ideographs vary more, in ways that
# look like others of the many that there are.
ANOTHER, TIMES = 0.17, 1.7
ANOTHER_IDEOGRAPH, TIMES_IDEOGRAPH = 0.32, 2.0
FOREIGN, FOREIGN_SIGN = 0.6, 0.9  # as far: none that is known; signs vary more than letters and what is in numbers
IN_NUMBERS = ".,-+%:/\u2212"
LIKE, UNLIKE = 0.09, 0.55  # what a true and a wrong name come to, mostly
LIKE_IDEOGRAPH, UNLIKE_IDEOGRAPH = 0.06, 0.48
MOST_WEIGHT = 3.0  # of one character's evidence, for or against: the logarithm of a likelihood ratio
LEAST_PROOF = -0.3  # mean evidence of a font, and of a block; true fonts come to -2, shuffled ones to 1.5
CHANGED, CHANGED_TIMES = 0.2, 1.5  # as far from its own kind, and as many times nearer to another of its font
BROKEN = 0.5  # as far from its own kind: covered, cut
ODD = 0.08  # as far from its own kind, it is held against the plain fonts by itself
MOST_APART = 0.1  # on the average of a block
LEAST_HEIGHT = 4.0  # pixels of a glyph; a hyphen is another one wherever its edges fall between pixels

# Of a page. No print has more, and each is compared with all plain fonts, or with all of its own font.
MOST_KINDS, MOST_ODD = 6000, 2000

BLACK = 60  # levels of grey of ink that needs a reason
EXPLAINED = 0.01  # of a block's ink: less needs none
MARGIN = 2  # pixels about a glyph that are its own
SPECK = 3  # pixels
RULE_THICKNESS, RULE_LENGTH = 0.15, 1.0  # ems
LONG_RULE = 6.0  # ems: a rule even where others cross it, as those of tables and frames; no letter's stroke is as long
LIGATURES = {"ff": 0xFB00, "fi": 0xFB01, "fl": 0xFB02, "ffi": 0xFB03, "ffl": 0xFB04}


class Judge:
    """Of one page. ``doubts``: the characters of the page by the reason to doubt them, bool ``[characters]``;
    ``unseen``: of them, those that draw nothing."""

    def __init__(self, characters: Characters, pixels: np.ndarray) -> None:
        each, styles = characters.each, characters.styles[characters.each["style"]]
        self._each, self._em = each, np.maximum(styles["size"], 0.01)
        self._ink = Ink(pixels, characters)
        zones = self._ink.zones(each["box"])
        codes, piece = _glyphs(each)
        seen = zones.max(1) >= LEAST_INK
        self.doubts = {
            Doubt.INVISIBLE: np.isin(styles["mode"], UNDRAWN) | ((styles["colour"] & 255) < LEAST_OPACITY),
            Doubt.TINY: styles["size"] < LEAST_EM,
            Doubt.NO_INK: ~seen & ~piece,
            Doubt.UNMAPPED: (each["flags"] & UNMAPPED > 0) | ~_plausible(codes),
            Doubt.DIRECTIONS: np.abs(styles["angle"]) > MOST_SLANT,
        }
        self.hidden = self.doubts[Doubt.INVISIBLE] | self.doubts[Doubt.TINY] | self.doubts[Doubt.NO_INK]
        told = ~piece & ~np.logical_or.reduce(list(self.doubts.values()))
        self._evidence, self._apart = np.zeros((2, len(each)), np.float32)
        self._proven = piece.copy()
        self.doubts[Doubt.SHAPES] = np.zeros(len(each), bool)
        if told.any():
            self._look(np.flatnonzero(told), codes, styles["font"], zones)
        self.doubts[Doubt.UNPROVEN] = ~self._proven & told & _matters(codes)

    def _look(self, at: np.ndarray, codes: np.ndarray, fonts: np.ndarray, zones: np.ndarray) -> None:
        """The shapes of the characters ``at``, kind by kind: a kind is a character of a font."""
        each, em = self._each[at], self._em[at]
        boxes, baseline = each["box"], each["origin"][:, 1]
        place = np.stack([baseline - boxes[:, 1], baseline - boxes[:, 3], boxes[:, 2] - boxes[:, 0]], 1) / em[:, None]
        zones = zones[at] / np.linalg.norm(zones[at], axis=1, keepdims=True)
        kinds, kind, counts = np.unique(
            fonts[at].astype(np.int64) << 32 | codes[at], return_inverse=True, return_counts=True
        )
        if len(kinds) > MOST_KINDS:
            self.doubts[Doubt.SHAPES][at] = True
            return
        means = [_means(kind, counts, values) for values in (zones, place)]
        of_kind, font_of = (kinds & 0xFFFFFFFF).astype(np.uint32), kinds >> 32
        typical = Shapes.seen(of_kind, *means)
        own = table().own(of_kind, typical)
        known = ~np.isnan(own)
        suspects = np.flatnonzero(own > SUSPECT)
        other = np.full(len(kinds), np.inf, np.float32)
        other[suspects] = table().others(of_kind[suspects], typical[suspects])
        wrong = _wrong(of_kind, own, other)
        evidence = np.where(known, _evidence(of_kind, own), 0)
        for font in np.unique(font_of):
            mine = (font_of == font) & known
            if mine.any() and evidence[mine].mean() > LEAST_PROOF:
                wrong |= font_of == font
        seen = Shapes.seen(codes[at], zones, place)
        apart = np.where(boxes[:, 3] - boxes[:, 1] >= LEAST_HEIGHT, pairwise(seen, typical[kind]), 0)
        changed = _changed(apart, kind, font_of, seen, typical)
        odd = np.flatnonzero((apart > ODD) & (counts[kind] > 1))  # two shapes for a character make a middling kind
        if len(odd) > MOST_ODD:
            changed[odd] = True
        else:
            changed[odd] |= _wrong(
                codes[at][odd], table().own(codes[at][odd], seen[odd]), table().others(codes[at][odd], seen[odd])
            )
        self._apart[at] = apart
        self.doubts[Doubt.SHAPES][at] = wrong[kind] | changed
        self._evidence[at] = evidence[kind]
        self._proven[at] = known[kind]

    def doubts_of(self, box: tuple[float, float, float, float], inside: np.ndarray) -> list[Doubt]:
        """Of the block of the characters ``inside`` (bool ``[characters]``), the gravest first."""
        found = [doubt for doubt, which in self.doubts.items() if which[inside].any()]
        if not found and (self._evidence[inside].mean() > LEAST_PROOF or self._apart[inside].mean() > MOST_APART):
            found.append(Doubt.SHAPES)
        if not found and self._other_ink(box, inside):
            found.append(Doubt.OTHER_INK)
        return found

    def _other_ink(self, box: tuple[float, float, float, float], inside: np.ndarray) -> bool:
        """Whether something is seen in ``box`` that no glyph accounts for, and that is no rule."""
        part, (left, top) = self._ink.part(box)
        if not part.size:
            return False
        black = (part > BLACK).astype(np.uint8)
        boxes = self._each["box"]
        near = (boxes[:, 2] > left) & (boxes[:, 0] < left + part.shape[1])
        near &= (boxes[:, 3] > top) & (boxes[:, 1] < top + part.shape[0])
        em = float(np.median(self._em[inside]))
        thickness = max(2.0, RULE_THICKNESS * em)
        black[_long_rules(black, int(LONG_RULE * em), thickness)] = 0
        all_ink = int(cv2.countNonZero(black))
        lows = np.floor(boxes[near & ~self.hidden, :2]).astype(int) - MARGIN - (left, top)
        highs = np.ceil(boxes[near & ~self.hidden, 2:]).astype(int) + MARGIN - (left, top)
        for (x, y), (x_end, y_end) in zip(np.maximum(lows, 0).tolist(), highs.tolist(), strict=True):
            black[y:y_end, x:x_end] = 0
        if cv2.countNonZero(black) <= EXPLAINED * all_ink:
            return False
        _, _, found, _ = cv2.connectedComponentsWithStats(black, connectivity=8)
        width, height, area = (
            found[1:, column] for column in (cv2.CC_STAT_WIDTH, cv2.CC_STAT_HEIGHT, cv2.CC_STAT_AREA)
        )
        thin = np.minimum(width, height) <= thickness
        rule = thin & (np.maximum(width, height) >= RULE_LENGTH * em)
        return bool(((area > SPECK) & ~rule).any())


def _long_rules(black: np.ndarray, length: int, thickness: float) -> np.ndarray:
    """Which of the ``black`` pixels are of straight lines at least as long, and no thicker; bool, as ``black``."""
    found = np.zeros(black.shape, bool)
    for side, kernel in ((cv2.CC_STAT_HEIGHT, (1, length)), (cv2.CC_STAT_WIDTH, (length, 1))):
        if kernel[0] > black.shape[0] or kernel[1] > black.shape[1]:
            continue
        lines = cv2.morphologyEx(black, cv2.MORPH_OPEN, np.ones(kernel, np.uint8), borderValue=(0.0,))
        _, which, sizes, _ = cv2.connectedComponentsWithStats(lines, connectivity=8)
        thin = sizes[:, side] <= thickness
        thin[0] = False  # what is no line
        found |= thin[which]
    return found


def _wrong(codes: np.ndarray, own: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Which shapes are not those of ``codes``, by how far they are from their ``own`` and from ``other`` characters."""
    ideograph = codes >= IDEOGRAPHS
    least = np.where(ideograph, ANOTHER_IDEOGRAPH, ANOTHER)
    nearer = own > np.where(ideograph, TIMES_IDEOGRAPH, TIMES) * other
    matters = _matters(codes) | np.isin(codes, [ord(sign) for sign in IN_NUMBERS])
    found = own > np.where(matters, FOREIGN, FOREIGN_SIGN)
    return found | (matters & (own > least) & nearer)


def _changed(apart: np.ndarray, kind: np.ndarray, font_of: np.ndarray, seen: Shapes, typical: Shapes) -> np.ndarray:
    """Which characters do not look like the others of their kind, ``apart`` from which they are."""
    found = apart > BROKEN
    looked_at = np.flatnonzero((apart > CHANGED) & ~found)
    if len(looked_at) > MOST_ODD:
        return apart > CHANGED
    for at in looked_at:
        peers = np.flatnonzero((font_of == font_of[kind[at]]) & (np.arange(len(font_of)) != kind[at]))
        if len(peers):
            nearest = pairwise(seen[np.full(len(peers), at)], typical[peers]).min()
            found[at] = apart[at] > CHANGED_TIMES * nearest
    return found


def _means(kind: np.ndarray, counts: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The mean row of ``values`` for each kind."""
    order = np.argsort(kind, kind="stable")
    begins = np.concatenate([[0], np.cumsum(counts)[:-1]])
    return np.add.reduceat(values[order], begins) / counts[:, None]


def _evidence(codes: np.ndarray, own: np.ndarray) -> np.ndarray:
    """For a lie (above 0) or the truth: how much likelier a wrong name would come to this distance than a true one."""
    ideograph = codes >= IDEOGRAPHS
    like, unlike = np.where(ideograph, LIKE_IDEOGRAPH, LIKE), np.where(ideograph, UNLIKE_IDEOGRAPH, UNLIKE)
    middle, slope = np.sqrt(like * unlike), 2 * MOST_WEIGHT / np.log(unlike / like)
    return np.clip(slope * np.log(np.maximum(own, 1e-3) / middle), -MOST_WEIGHT, MOST_WEIGHT)


def _glyphs(each: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The character that each glyph is, a ligature for the first of its pieces (0 for pieces that are no ligature); and
    which are further pieces of a glyph."""
    codes, piece = each["code"].copy(), each["flags"] & PIECE > 0
    for first in np.flatnonzero(piece[1:] & ~piece[:-1]):
        end = first + 1
        while end < len(each) and piece[end]:
            end += 1
        codes[first] = LIGATURES.get("".join(map(chr, each["code"][first:end])), 0)
    return codes, piece


def _plausible(codes: np.ndarray) -> np.ndarray:
    """Which of ``codes`` are characters that print has: none of private use, of control, unassigned."""
    found, back = np.unique(codes, return_inverse=True)
    ok = [unicodedata.category(chr(code)) not in ("Co", "Cn", "Cs", "Cc") and code != 0xFFFD for code in found.tolist()]
    return np.array(ok, bool)[back]


def _matters(codes: np.ndarray) -> np.ndarray:
    """Letters, marks and digits: a lie in them is one."""
    found, back = np.unique(codes, return_inverse=True)
    return np.array([unicodedata.category(chr(code))[0] in "LMN" for code in found.tolist()], bool)[back]
