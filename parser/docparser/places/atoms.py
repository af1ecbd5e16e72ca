# SPDX-License-Identifier: Apache-2.0
"""A text before it is printed: how wide it is, whatever its typeface, and its atoms: what stands on one line, and has a
width that is known; and where a line may end within one."""

from __future__ import annotations

import dataclasses
import re
import unicodedata
from collections.abc import Iterator, Sequence

from docparser.formula_signs import formulas_in

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
# Of scripts without blanks, each character is one; a line may end beside it.
IDEOGRAPH = re.compile("[\u1100-\u11ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef"
                       "\U00020000-\U0003ffff]")  # fmt: skip
SPACED = re.compile("[\u1100-\u11ff\ua960-\ua97f\uac00-\ud7ff]")  # Hangul, which has blanks between its words
PIECES = re.compile(r"\S+")
BEARINGS = 0.1  # ems: the white at both ends of a word's advance
LEAST, SIGN = 0.1, 0.3  # ems of ink; of a sign that is as broad as an ideograph
UNSURE, UNSURE_EACH = 0.2, 0.07  # ems: how far a width may be off, of a word, and more for each of its letters
LONGEST = 300  # characters; more are several atoms
COMMAND = re.compile(r"\\[A-Za-z]+")
MARKUP = re.compile(r"[\\{}$^_&\s]")
# A word on two lines.
HYPHENATED, BROKEN = 1.0, 4.0  # how unlikely: with a hyphen at the line's end, and without one
LEAST_PART = 2  # letters of a word on either line
LETTERS = re.compile(r"[^\W\d_]{4}")
BREAKS = re.compile("(?<=[-/._=&?\u2013\u2014])")
BREAKABLE = 8  # letters of a word that may be broken without a hyphen


def width(character: str) -> int:
    """An advance that is near to that of common typefaces, in thousandths of the em."""
    if character in KNOWN:
        return KNOWN[character]
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return NOTHING  # of what has no advance at all, PDFium leaves the Unicode out
    if unicodedata.east_asian_width(character) in "WF":
        return BROAD
    return CAPITAL if character.isupper() else OTHER


def is_ideograph(sign: str) -> bool:
    """Whether it is a word of its own. Syllables of Hangul are not."""
    return bool(IDEOGRAPH.match(sign)) and not SPACED.match(sign)


def text_width(text: str) -> float:
    """In ems."""
    return sum(map(width, text)) / UNITS


@dataclasses.dataclass(frozen=True)
class Atom:
    """``text[start:end]`` with ``ems`` of ink, give or take ``unsure``. ``glued``: no blank stands before it."""

    start: int
    end: int
    ems: float
    unsure: float
    glued: bool = False
    word: bool = True


def atoms_of(text: str, skipped: Sequence[tuple[int, int]] = ()) -> list[Atom]:
    """``skipped``: ranges of what is not printed, in order. A formula is one atom."""
    found: list[Atom] = []
    at = 0
    for begin, end in [*skipped, (len(text), len(text))]:
        spans = [(at + formula.start, at + formula.end) for formula in formulas_in(text[at:begin])]
        for first, last in [*spans, (begin, begin)]:
            for piece in PIECES.finditer(text, at, first):
                found += _of_piece(text, piece.start(), piece.end())
            if first < last:
                found.append(_of_formula(text, first, last))
            at = max(at, last)
        at = max(at, end)
    return [_glued(text, before, atom) for before, atom in zip([None, *found], found)]


def _glued(text: str, before: Atom | None, atom: Atom) -> Atom:
    if before is None or any(sign.isspace() for sign in text[before.end : atom.start]):
        return atom
    return dataclasses.replace(atom, glued=True)


def _of_piece(text: str, start: int, end: int) -> list[Atom]:
    """Of what no blank parts."""
    cuts = {start, end, *range(start, end, LONGEST)}
    for found in IDEOGRAPH.finditer(text, start, end):
        cuts |= {found.start(), found.end()}
    ends = sorted(cuts)
    return [part_of(text, first, last) for first, last in zip(ends, ends[1:])]


def part_of(text: str, start: int, end: int) -> Atom:
    """A word, or a part of one."""
    said = text[start:end]
    if len(said) == 1 and IDEOGRAPH.match(said):
        sign = unicodedata.category(said)[0] in "PSZ"
        return Atom(start, end, SIGN if sign else 1.0 - BEARINGS, 0.3 if sign else 0.15, word=False)
    ems = max(LEAST, text_width(said) - BEARINGS)
    return Atom(start, end, ems, UNSURE + UNSURE_EACH * len(said))


def by_lines(text: str, atoms: list[Atom]) -> list[list[Atom]]:
    """The atoms of each line, by the line ends in the text."""
    rows: list[list[Atom]] = []
    before = 0
    for atom in atoms:
        if not rows or "\n" in text[before : atom.start]:
            rows.append([])
        rows[-1].append(atom)
        before = atom.end
    return rows


def breaks_of(text: str, atom: Atom, hyphen: bool) -> Iterator[tuple[int, float, float]]:
    """Where a line may end within an atom: after how many characters, ems of a hyphen there, and how unlikely it is."""
    said = text[atom.start : atom.end]
    if hyphen and LETTERS.search(said):
        for at in range(LEAST_PART, len(said) - LEAST_PART + 1):
            yield at, 0.0 if said[at - 1] in "-\u2010" else text_width("-"), HYPHENATED
    elif len(said) >= BREAKABLE and atom.word:
        for match in BREAKS.finditer(said, 1, len(said) - 1):
            yield match.start(), 0.0, BROKEN


def rest_of(text: str, atoms: Sequence[Atom], index: int, said: int) -> Atom | None:
    """What is left of the atom at ``index``, of which ``said`` characters stand on a line; None behind the last."""
    return part_of(text, atoms[index].start + said, atoms[index].end) if index < len(atoms) else None


def _of_formula(text: str, start: int, end: int) -> Atom:
    said = MARKUP.sub("", COMMAND.sub("x", text[start + 1 : end - 1].strip("()[]\\$")))
    ems = max(LEAST, text_width(said))
    return Atom(start, end, ems, 0.5 + 0.3 * ems, word=False)


def is_right_to_left(text: str) -> bool:
    directions = [unicodedata.bidirectional(sign) for sign in text]
    right = sum(direction in ("R", "AL") for direction in directions)
    return right > directions.count("L")


def has_right_to_left(text: str) -> bool:
    return not text.isascii() and any(unicodedata.bidirectional(sign) in ("R", "AL") for sign in text)
