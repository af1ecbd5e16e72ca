# SPDX-License-Identifier: Apache-2.0
"""Two texts of one block, the VLM's and the page's own, letter against letter; and the one mended by the other.

Letters are compared as Unicode's compatibility forms (NFKC), so that width, ligatures and composed accents make no
difference; blanks and line ends are none. What the VLM wrote as a formula stands for whatever the
page has in its place. Words are aligned first, by the fewest changes (Levenshtein), then the letters of those that
differ, so that letters count as equal only inside of words that stand for each other.

``repaired`` has the VLM's structure with the page's own letters: lines, marks and formulas of the one, words of the
other.
"""

from __future__ import annotations

import bisect
import collections
import dataclasses
import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache

from rapidfuzz.distance import Levenshtein

from docparser.own_text.lines import LOWERED

FORMULA = "formula"  # as a letter: no single character is equal to it
WRITTEN_FORMULA = re.compile(r"\\\(.*?\\\)|\\\[.*?\\\]|\$\$.*?\$\$", re.DOTALL)
# Marks of tables (OTSL) and of text that is raised, lowered or bold: no letters, and they stay where they are.
TABLE_MARKS = re.compile(r"<(?:fcel|ecel|lcel|ucel|xcel|nl)>")
TEXT_MARKS = re.compile(r"</?su[bp]>|\*\*")
NO_LETTERS = frozenset("\u00ad\u200b\u200c\u200d\u2060\ufeff\ufe0e\ufe0f")  # soft hyphen, joiners, variants
WITHOUT_BLANKS = "\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff"
WIDE = re.compile(f"[{WITHOUT_BLANKS}]")
LIGATURES = "\ufb00"  # from here on, signs of several letters are forms of print: fi, lam-alef
DIGITS = 4
LEAST_RUN = 2  # letters; a single equal one between others that differ is equal by chance

Op = tuple[str, int, int, int, int]  # equal, replace, delete or insert; letters of the VLM's text, and of the page's
MARKS = re.compile(f"{TABLE_MARKS.pattern}|{TEXT_MARKS.pattern}")
RAISED = re.compile(r"<sup>[^<>]*</sup>")
AT_MARK = re.compile(f" *({TABLE_MARKS.pattern}) *")
LEAST = 0.5  # agreement: below it the two are not the same text, in this order


@dataclasses.dataclass(frozen=True)
class Letters:
    """``compared``: the letters of a text; ``shown``: each as the text has it, and of a sign that counts as several the
    first alone, but for ligatures; ``gaps``: what stands before each, and after the last one; ``words``: where each
    word's letters begin, and where the last one ends."""

    compared: list[str]
    shown: list[str]
    gaps: list[str]
    words: list[int]

    @classmethod
    def of(cls, text: str, marks: re.Pattern[str] | None = None) -> Letters:
        """``marks``: the text is a VLM's, with these marks and formulas; else it is the page's."""
        compared: list[str] = []
        shown: list[str] = []
        gaps: list[str] = []
        words: list[int] = []
        gap = ""
        for piece, is_letters in _pieces(unicodedata.normalize("NFC", text), marks):
            if not is_letters:
                gap += piece
                continue
            formula = marks is not None and WRITTEN_FORMULA.fullmatch(piece)
            for sign in [piece] if formula else piece:
                forms = [FORMULA] if formula else letters_of(sign)
                for at, form in enumerate(forms):
                    if gap or not words or WIDE.match(form) or WIDE.match(compared[-1]):
                        words.append(len(compared))
                    compared.append(form)
                    shown.append(form if len(forms) > 1 and sign >= LIGATURES else "" if at else sign)
                    gaps.append(gap)
                    gap = ""
        return cls(compared, shown, [*gaps, gap], [*words, len(compared)])

    def text(self, begin: int, end: int) -> str:
        """Letters ``begin`` to ``end`` with the gaps between them."""
        return "".join(
            (" " if at > begin and self.gaps[at] else "") + self.shown[at] for at in range(begin, max(begin, end))
        )

    @cached_property
    def of_words(self) -> list[tuple[str, ...]]:
        return [tuple(self.compared[begin:end]) for begin, end in zip(self.words, self.words[1:])]


def _pieces(text: str, marks: re.Pattern[str] | None) -> Iterator[tuple[str, bool]]:
    """``text`` in parts, and whether each is letters: formulas and words are, marks and blanks are not."""
    pattern = r"\s+" if marks is None else rf"{WRITTEN_FORMULA.pattern}|{marks.pattern}|\s+"
    at = 0
    for found in re.finditer(pattern, text, re.DOTALL):
        if found.start() > at:
            yield text[at : found.start()], True
        yield found[0], marks is not None and bool(WRITTEN_FORMULA.fullmatch(found[0]))
        at = found.end()
    if at < len(text):
        yield text[at:], True


@lru_cache(maxsize=4096)
def letters_of(sign: str) -> list[str]:
    """The letters that ``sign`` counts as: two for a ligature, none for a soft hyphen."""
    return [form for form in unicodedata.normalize("NFKC", sign) if not form.isspace() and form not in NO_LETTERS]


@dataclasses.dataclass(frozen=True)
class Alignment:
    """``vlm`` and ``page``: the letters of both texts. ``ops`` cover them, in order."""

    vlm: Letters
    page: Letters
    ops: list[Op]

    @classmethod
    def of(cls, vlm: str, page: str, marks: re.Pattern[str] = TEXT_MARKS) -> Alignment:
        ours, theirs = Letters.of(vlm, marks), Letters.of(page)
        return cls(ours, theirs, list(_ops(ours, theirs)))

    @property
    def agreement(self) -> float | None:
        """``2 M / (V + P)``: M letters are equal of the V that the VLM wrote and the P that the page has. Formulas and
        what stands for them count nowhere. None where neither has a letter."""
        equal = counted = 0
        for op in self.ops:
            tag, begin, end, other, last = op
            if tag == "equal":
                equal += end - begin
                counted += 2 * (end - begin)
            elif not self.is_formula(op):
                counted += end - begin + last - other
        return round(2 * equal / counted, DIGITS) if counted else None

    def is_formula(self, op: Op) -> bool:
        """Whether the VLM wrote a formula there, or right beside it."""
        _, begin, end, _, _ = op
        beside = range(max(0, begin - (begin == end)), min(len(self.vlm.compared), end + (begin == end)))
        return any(self.vlm.compared[at] == FORMULA for at in beside)

    def differences(self) -> list[tuple[str, str]]:
        """What the VLM wrote, and what the page has instead, as words: an empty one is invented or lost."""
        return [
            (self.vlm.text(*_whole_words(self.vlm, begin, end)), self.page.text(*_whole_words(self.page, other, last)))
            for op in self.ops
            for tag, begin, end, other, last in [op]
            if tag != "equal" and not self.is_formula(op)
        ]


def _whole_words(letters: Letters, begin: int, end: int) -> tuple[int, int]:
    """The words that letters ``begin`` to ``end`` are of; none where they are none between two words."""
    words = letters.words
    at = bisect.bisect_right(words, begin) - 1
    if begin == end and words[at] == begin:
        return begin, end
    last = max(bisect.bisect_left(words, end), at + 1)
    return words[at], words[last] if last < len(words) else end


def _ops(vlm: Letters, page: Letters) -> Iterator[Op]:
    if vlm.compared == page.compared:
        yield ("equal", 0, len(vlm.compared), 0, len(page.compared))
        return
    for tag, *words in _aligned(vlm.of_words, page.of_words):
        begin, end = (vlm.words[at] for at in words[:2])
        other, last = (page.words[at] for at in words[2:])
        if tag != "replace":
            yield (tag, begin, end, other, last)
            continue
        for inner, a, b, c, d in _aligned(vlm.compared[begin:end], page.compared[other:last], LEAST_RUN):
            yield (inner, begin + a, begin + b, other + c, other + d)


def _aligned(some: Sequence[object], others: Sequence[object], least: int = 1) -> list[Op]:
    """What makes ``others`` of ``some``: runs that are equal, and between them one op for all that differs. A run of
    less than ``least``, unless it is the first or the last, is a part of what differs."""
    ends = [
        (op.src_start, op.src_end, op.dest_start, op.dest_end)
        for op in Levenshtein.opcodes(some, others)
        if op.tag == "equal"
    ]
    edges = {(0, 0), (len(some), len(others))}
    equal = [run for run in ends if run[1] - run[0] >= least or {(run[0], run[2]), (run[1], run[3])} & edges]
    found: list[Op] = []
    begin, other = 0, 0
    for low, high, first, last in [*equal, (len(some), len(some), len(others), len(others))]:
        if low > begin or first > other:
            tag = "insert" if low == begin else "delete" if first == other else "replace"
            found.append((tag, begin, low, other, first))
        if high > low:
            found.append(("equal", low, high, first, last))
        begin, other = high, last
    return found


def repaired(both: Alignment, *, whole: bool) -> str | None:
    """The text; None where the two texts are too different to be one. Unless the page's text is ``whole``, what only
    the VLM has may be in a picture, and stays. In a table, a difference that reaches over a mark stays the VLM's, for
    nobody knows which cell it belongs to."""
    agreement = both.agreement
    if agreement is None or agreement < LEAST:
        return None
    parts = [_part(both, op, whole) for op in both.ops]
    text = AT_MARK.sub(r"\1", "".join(parts) + both.vlm.gaps[-1]).strip()
    # The page's own raised numbers are superscripts already, and the VLM's mark raises them.
    return RAISED.sub(lambda raised: raised[0].translate(LOWERED), text)


def is_misread(both: Alignment) -> bool:
    """Whether the VLM lacks most words that are there. It may have them in another order, or as formulas."""
    if FORMULA in both.vlm.compared or not both.page.compared:
        return False
    ours, theirs = collections.Counter(both.vlm.of_words), collections.Counter(both.page.of_words)
    return (ours & theirs).total() < LEAST * theirs.total()


def _part(both: Alignment, op: Op, whole: bool) -> str:
    """What an op comes to, with the gap before it."""
    tag, begin, end, other, last = op
    vlm, page = both.vlm, both.page
    if tag != "equal":
        keeps = both.is_formula(op) or _reaches_over_a_mark(both, begin, end)
        if keeps or (tag == "delete" and not whole):
            return "".join(vlm.gaps[at] + vlm.shown[at] for at in range(begin, end))
        if begin == end and TABLE_MARKS.search(vlm.gaps[begin]):
            return ""  # lost beside a mark: of the cell before it or behind it
        if tag == "delete":
            return "".join(MARKS.findall("".join(vlm.gaps[begin:end])))
    if end - begin == last - other:  # the same letters, or each misread for one: marks stay between them
        return "".join(
            _gap(vlm.gaps[at], page.gaps[other + at - begin], *_beside(both, other + at - begin))
            + _sign(vlm.shown[at], page.shown[other + at - begin])
            for at in range(begin, end)
        )
    before = vlm.gaps[begin] if begin < end else ""
    marks = MARKS.findall("".join(vlm.gaps[begin + 1 : end]))
    return _gap(before, page.gaps[other], *_beside(both, other)) + page.text(other, last) + "".join(marks)


def _sign(vlm: str, page: str) -> str:
    """The page's, unless it is the same and the VLM alone has seen that it is raised."""
    raised = any(unicodedata.decomposition(sign).startswith("<super>") for sign in vlm)
    return vlm if raised and letters_of(vlm) == letters_of(page) else page


def _beside(both: Alignment, at: int) -> tuple[str, str]:
    """The page's letter, and the one before it."""
    return both.page.compared[at], both.page.compared[at - 1] if at else ""


def _gap(vlm: str, page: str, letter: str, before: str) -> str:
    """The VLM's lines and marks; where it has none, a blank where the page has one, for it knows its words."""
    if vlm.strip(" ") or WIDE.match(letter) or WIDE.match(before):
        return vlm
    return " " if page and before else ""


def _reaches_over_a_mark(both: Alignment, begin: int, end: int) -> bool:
    return any(TABLE_MARKS.search(both.vlm.gaps[at]) for at in range(begin + 1, end))
