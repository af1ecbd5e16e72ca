# SPDX-License-Identifier: Apache-2.0
"""The outline of a document: the level of each of its headings, over all of its pages (docs/decisions/0238).

A layout model says of each page by itself what a title is, and takes the first heading of a page for the document's. So
its labels say that there is a heading; its level follows from what a reader goes by: the heading's number, else the
size of its print beside that of the others. Needs the standard library only.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import math
import re
import statistics
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

# Labels of headings, and the level that each has on a page by itself.
TITLES = {"doc_title": 1, "paragraph_title": 2, "abstract_title": 2, "reference_title": 2, "content_title": 2}
HEADING = re.compile(r"^(#{1,7})\s+(.+)$", re.MULTILINE)  # in Markdown
TOP, DEEPEST = 2, 6  # levels of sections
ALIKE = 1.12  # times as large: less is the same size of print
LONE = 30  # a higher number of a section needs one beside it: "101 Dalmatians" is none

IDEOGRAPHIC = "\u4e00\u4e8c\u4e09\u56db\u4e94\u516d\u4e03\u516b\u4e5d"  # one to nine
COUNTED = rf"[{IDEOGRAPHIC}\u5341\u767e\u96f6\u3007]{{1,5}}"
TO_99 = re.compile(rf"(?:([{IDEOGRAPHIC}])?(\u5341))?([{IDEOGRAPHIC}])?")
ROMAN = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}
ANY = r"[0-9]{1,3}|[IVXLC]+"
HAN = rf"{COUNTED}|[0-9]{{1,3}}"
# Kinds of numbers as (rank, pattern): where sizes do not tell, a kind of higher rank stands below one of lower rank.
# The groups are the parts of the number.
KINDS = {
    "part": (0, rf"(?:part|book|volume)\s+({ANY})\b|\u7b2c({HAN})[\u7f16\u90e8\u7bc7\u5377]"),
    "chapter": (1, rf"chapter\s+({ANY})\b|\u7b2c({HAN})\u7ae0"),
    "appendix": (1, rf"(?:appendix|annex|schedule)\s+([A-Z]|{ANY})\b|\u9644\u5f55\s*([A-Z]|[0-9]{{1,3}})"),
    "section": (2, rf"(?:section|article)\s+({ANY})\b|\u7b2c({HAN})\u8282"),
    "clause": (3, rf"\u7b2c({HAN})\u6761"),
    "counted": (3, rf"({COUNTED})[\u3001\uff0e.]"),
    "roman": (3, r"([IVXLC]{1,6})[.)]\s"),
    "bracketed": (4, rf"[(\uff08]({COUNTED})[)\uff09]"),
    "decimal": (5, r"(?:\u00a7\s*)?([0-9]{1,3}(?:\.[0-9]{1,3}){0,4})(?:\s|[.\uff0e\u3001]|(?=[\u4e00-\u9fff]))"),
    "letter": (5, r"([A-Z](?:\.[0-9]{1,3}){0,3})(?:[.)]\s|(?<=[0-9])\s)"),
    "in brackets": (6, r"[(\uff08]?([0-9]{1,3})[)\uff09]"),
    "small letter": (7, r"[(\uff08]?([a-z])[.)\uff09]\s"),
}
PATTERNS = [(kind, re.compile(pattern, re.IGNORECASE if rank <= 2 else 0)) for kind, (rank, pattern) in KINDS.items()]

# Of print, in ems: widths of letters, and how far ink stands above and below the line.
NARROW, WIDE, CAPITAL, USUAL, IDEOGRAPH = 0.28, 0.85, 0.68, 0.53, 1.0
ASCENDER, X_HEIGHT, DESCENDER, PITCH = 0.73, 0.53, 0.21, 1.2
MOST_LINES = 5  # of a title
MISREAD = 1.8  # times as long as its lines can be: then the title has more lines


@dataclasses.dataclass(frozen=True)
class Title:
    """A block with a label of TITLES. ``page`` in the order of the document; ``width`` and ``height`` of its box as
    shares of the side of a square as large as the page, because pages may have been scanned differently; 0: not known.
    """

    label: str
    text: str
    page: int = 0
    width: float = 0.0
    height: float = 0.0

    @classmethod
    def of(cls, label: str, text: str, box: Sequence[float], page: int, size: tuple[float, float]) -> Title:
        """``box``: left, top, right, bottom; ``size``: width and height of the page, in the same pixels."""
        side = math.sqrt(max(0.0, size[0] * size[1])) or 1.0
        return cls(label, text, page, (box[2] - box[0]) / side, (box[3] - box[1]) / side)


@dataclasses.dataclass(frozen=True)
class _Number:
    kind: str
    parts: tuple[int, ...]

    @property
    def style(self) -> tuple[str, int]:
        """Headings with numbers of one style have one level."""
        return self.kind, len(self.parts)


def levels(titles: Sequence[Title]) -> list[int]:
    """Of all titles of a document in reading order: 1 is its title, 2 to 6 are sections and their parts; 0 is its title
    where it is printed again on a later page, and is no heading."""
    numbers = _numbers(titles)
    sizes = [_size(title) for title in titles]
    found: list[int | None] = _of_the_document(titles, numbers, sizes)
    for at, level in _of_numbers(numbers, sizes).items():
        found[at] = level
    _by_size(titles, sizes, found)
    return _without_gaps([level or 0 for level in found])


def side(said: Any) -> float:
    """Of a page in pixels, as PaddleX says it; 0: not known. Pages that were made one have a list."""
    return float((said[0] if isinstance(said, list) and said else said) or 0)


def key(text: str) -> str:
    """What a title and its repetition have in common. PaddleX takes full stops from titles' ends, and sets a blank
    behind their numbers."""
    return "".join(text.split()).rstrip(".").casefold()


def as_printed(markdown: str, titles: Iterable[tuple[str, int | None]]) -> str:
    """PaddleX's Markdown, whose headings lose a final full stop and get a blank behind a number ("3 D printing"), with
    its ``titles`` in order: text as printed, and level (0: no heading; None: as PaddleX has it). Of some blocks it
    gives their share of the page's."""
    printed: dict[str, collections.deque[tuple[str, int | None]]] = collections.defaultdict(collections.deque)
    for text, level in titles:
        printed[key(text)].append((" ".join(text.split()), level))

    def heading(found: re.Match[str]) -> str:
        if not (left := printed.get(key(found[2]))):
            return found[0]
        text, level = left.popleft()
        return f"{found[1] if level is None else '#' * level} {text}".lstrip()

    return HEADING.sub(heading, markdown)


# ---- the document's own title


def _of_the_document(
    titles: Sequence[Title], numbers: Sequence[_Number | None], sizes: Sequence[float]
) -> list[int | None]:
    """1 for the largest titles without a number of the first page that has one, and for later ones that are as large; 0
    where such a title is said again."""
    found: list[int | None] = [None] * len(titles)
    own = [at for at, title in enumerate(titles) if title.label == "doc_title" and numbers[at] is None]
    if not own:
        return found
    first = [at for at in own if titles[at].page == titles[own[0]].page]
    largest = max(sizes[at] for at in first)
    words: set[str] = set()
    for at in own:
        if at not in first and key(titles[at].text) in words:
            found[at] = 0
        elif sizes[at] * ALIKE >= largest:
            found[at] = 1
            words.add(key(titles[at].text))
    return found


# ---- numbers


def _numbers(titles: Sequence[Title]) -> list[_Number | None]:
    found = [_number(title.text) if title.label in ("doc_title", "paragraph_title") else None for title in titles]
    romans = {number.parts for number in found if number and number.kind == "roman"}
    found = [_as_letter(number, romans) if number else None for number in found]
    said = {(number.style, number.parts) for number in found if number}
    return [number if number and _is_section(number, said) else None for number in found]


def _number(text: str) -> _Number | None:
    text = text.strip()
    for kind, pattern in PATTERNS:
        # A number that is all of the title has nothing behind it.
        if match := pattern.match(f"{text} "):
            parts = next(group for group in match.groups() if group).split(".")
            if values := [value for part in parts if (value := _value(part)) is not None]:
                return _Number(kind, tuple(values)) if len(values) == len(parts) else None
    return None


def _value(part: str) -> int | None:
    if part.isdecimal():
        return int(part)
    if len(part) == 1 and part.isascii() and part.upper() not in ROMAN:
        return ord(part.upper()) - ord("A") + 1
    if part.isascii():
        return _roman(part.upper())
    if not (match := TO_99.fullmatch(part)):
        return None
    tens, ten, ones = match.groups()
    return 10 * (IDEOGRAPHIC.index(tens) + 1 if tens else bool(ten)) + (IDEOGRAPHIC.index(ones) + 1 if ones else 0)


def _roman(text: str) -> int | None:
    if any(letter not in ROMAN for letter in text):
        return None
    values = [ROMAN[letter] for letter in text]
    return sum(-one if one < other else one for one, other in itertools.pairwise([*values, 0]))


def _as_letter(number: _Number, romans: set[tuple[int, ...]]) -> _Number:
    """C, D and I are numbers of both kinds: of the Roman one where there is one beside them."""
    (value, *_), alone = number.parts, len(number.parts) == 1
    if number.kind != "roman" or not alone or value == 1 or {(value - 1,), (value + 1,)} & romans:
        return number
    letters = {amount: letter for letter, amount in ROMAN.items()}
    return _Number("letter", (ord(letters[value]) - ord("A") + 1,)) if value in letters else number


def _is_section(number: _Number, said: set[tuple[tuple[str, int], tuple[int, ...]]]) -> bool:
    """Whether it is one of a row of numbers, or may be."""
    *above, last = number.parts
    beside = {(number.style, (*above, value)) for value in (last - 1, last + 1)}
    return number.kind != "decimal" or len(number.parts) > 1 or last <= LONE or bool(beside & said)


def _of_numbers(numbers: Sequence[_Number | None], sizes: Sequence[float]) -> dict[int, int]:
    """The levels of titles with numbers. A style has the level that it got where it came first."""
    known: dict[tuple[str, int], int] = {}
    open_: list[tuple[_Number, float]] = []  # what a further title may stand below, the outermost first
    found: dict[int, int] = {}
    for at, number in enumerate(numbers):
        if number is None:
            continue
        if number.style not in known:
            known[number.style] = _level_of(number, sizes[at], known, open_)
        level = known[number.style]
        found[at] = min(level, DEEPEST)
        open_ = [*((above, size) for above, size in open_ if known[above.style] < level), (number, sizes[at])]
    return found


def _level_of(
    number: _Number,
    size: float,
    known: dict[tuple[str, int], int],
    open_: Sequence[tuple[_Number, float]],
) -> int:
    """Of a style that comes for the first time."""
    kind, depth = number.style
    of_kind = {other: level for (name, other), level in known.items() if name == kind}
    if of_kind:  # 1.1.1 below 1.1
        nearest = min(of_kind, key=lambda other: abs(other - depth))
        return max(TOP, of_kind[nearest] + depth - nearest)
    level = TOP
    for above, above_size in open_:
        if KINDS[above.kind][0] < KINDS[kind][0] or size * ALIKE < above_size:
            level = known[above.style] + 1
    for above, _ in reversed(open_):
        if above.parts == number.parts[:-1]:  # 2.1 below "Chapter 2", which takes the place of 2
            return known[above.style] + 1
    return level + depth - 1


# ---- sizes


def _by_size(titles: Sequence[Title], sizes: Sequence[float], found: list[int | None]) -> None:
    """Give a level to each title that has none: that of numbered ones of its size, else one below those that are
    larger. Titles whose label says what they are (abstract, references, contents) are sections."""
    numbered = [level for level in found if level is not None and level >= TOP]
    top = min(numbered, default=TOP)
    for at, title in enumerate(titles):
        if found[at] is None and ((TITLES[title.label] > 1 and title.label != "paragraph_title") or not sizes[at]):
            found[at] = top
    open_ = [at for at, level in enumerate(found) if level is None]
    sections = sorted(
        (at for at, level in enumerate(found) if sizes[at] and (level is None or level >= TOP)),
        key=lambda at: -sizes[at],
    )
    above = top - 1
    for group in _alike(sections, sizes):
        said = [level for at in group if (level := found[at]) is not None]
        level = statistics.mode(said) if said else above + 1
        for at in set(group).intersection(open_):
            found[at] = min(level, DEEPEST)
        above = max(above, level)


def _alike(order: Sequence[int], sizes: Sequence[float]) -> list[list[int]]:
    """Titles in groups of one size each, the largest first; ``order`` by size."""
    groups: list[list[int]] = []
    for at in order:
        if groups and sizes[groups[-1][-1]] < ALIKE * sizes[at]:
            groups[-1].append(at)
        else:
            groups.append([at])
    return groups


def _size(title: Title) -> float:
    """The size of its print (an em), by how high its box is for its lines and how wide for its letters; 0: unknown."""
    text = " ".join(title.text.split())
    if not text or title.width <= 0 or title.height <= 0:
        return 0.0
    units = sum(map(_units, text))
    above = (
        ASCENDER
        if any(letter.isupper() or letter in "bdfhklt" or not letter.islower() for letter in text)
        else X_HEIGHT
    )
    below = DESCENDER if any(letter in "gjpqy(),;" or _is_ideograph(letter) for letter in text) else 0.0
    lines = 1
    while (
        units * (em := title.height / (above + below + PITCH * (lines - 1))) > MISREAD * lines * title.width
        and lines < MOST_LINES
    ):
        lines += 1
    return math.sqrt(em * title.width / units) if lines == 1 else em


def _units(letter: str) -> float:
    if _is_ideograph(letter):
        return IDEOGRAPH
    if letter in " .,:;!|'iljtfI()[]-":
        return NARROW
    return WIDE if letter in "mwMW" else CAPITAL if letter.isupper() else USUAL


def _is_ideograph(letter: str) -> bool:
    return unicodedata.east_asian_width(letter) in "WF"


def _without_gaps(found: list[int]) -> list[int]:
    """No level of sections is left out between two."""
    used = sorted({level for level in found if level >= TOP})
    place = {level: TOP + number for number, level in enumerate(used)}
    return [place.get(level, level) for level in found]
