# SPDX-License-Identifier: Apache-2.0
"""A text laid onto the lines that were found for it: which words stand on which line, and on which ink.

A word's printed width is known approximately. White space separates words and is nearly absent inside them. Of all ways
to cover the ink of the lines with the words in order, the likeliest is taken: by least sums of squares, line by line,
keeping a few of the best beginnings of each (a beam).
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from docparser.places.atoms import Atom, atoms_of, breaks_of, by_lines, is_right_to_left, part_of, rest_of
from docparser.places.box import Box, around
from docparser.places.ink import Line, Row, cut, length, row_of

# Costs of unlikely layouts, in squares of a width's deviation.
SKIPPED_RUN, MOST_SKIPPED = 7.0, 2  # ink at an end of a line without a word: a mark before an item, dirt
SKIPPED_INK, SKIPPED_EM = 6.0, 0.3  # ink of words that gets no word, or a line without any, and each em of it
SKIPPED_WORD, LEFT_EM = 2.0, 3.0  # a word without ink, and each em of it
GOOD = 1.0  # of a text, for each of its atoms: no further look is needed
LEAST_EM = 4.0  # pixels; smaller print has a text of its own
HEIGHT = 0.92  # ems of a line's ink
TRUSTED = 3.0  # of a line, for each of its atoms
PARTED = 1.0  # white that is no less likely between words
TOO_WIDE = 4.0  # deviations of a width, at most
LONGER = 1.35  # a line holds no more words than these many times its ems
BLANK = 0.3  # ems, usually
MOST_STEPS = 8_000_000  # of a page, some three seconds; typeset texts took 0.8 million at most

Place = tuple[int, int]  # the next atom, and how many of its characters were said


class Laid(NamedTuple):
    """``text[start:end]`` stands on line ``line``, in ``box``. ``sure``: the ink bears it out. ``word``: it is a word
    or a part of one, and no ideograph or formula; ``glued``: no blank stands before it."""

    start: int
    end: int
    line: int
    box: Box
    sure: bool
    word: bool = True
    glued: bool = False


class _Path(NamedTuple):
    """How a line is covered, from its end: an atom, and the first and last run that it covers."""

    earlier: _Path | None
    atom: Atom
    first: int
    last: int


class TooMuch(Exception):
    """The effort is spent."""


class Effort:
    """What may be spent on the texts of one page: texts that fit their ink nowhere would take minutes."""

    def __init__(self) -> None:
        self._left = MOST_STEPS

    def spend(self, steps: int) -> None:
        """Raises TooMuch."""
        self._left -= steps
        if self._left < 0:
            raise TooMuch


class _Look(NamedTuple):
    """How wide the search is: beginnings that cost ``worse`` more than the best are dropped, and ``beam`` of the rest
    are kept. With ``skips``, words may have no ink, and ink no words, anywhere on a line."""

    effort: Effort
    worse: float
    beam: int
    skips: bool


class _State(NamedTuple):
    """The lines so far: the ``cost`` of all, and the path and cost of the last."""

    cost: float
    earlier: _State | None
    path: _Path | None
    of_line: float


def lay(text: str, lines: Sequence[Line], effort: Effort, skipped: Sequence[tuple[int, int]] = ()) -> list[Laid]:
    """The words in order, each once, a broken one in its parts. Text that the ink does not bear out is placed by
    lengths, and so is all text once the page's ``effort`` is spent. Empty without lines. ``skipped``: ranges of
    ``text`` that are not printed."""
    atoms = atoms_of(text, skipped)
    if not lines or not atoms:
        return []
    written = by_lines(text, atoms)
    try:
        if len(written) != len(lines):
            return _on(text, atoms, lines, 0, effort)
        return [
            laid
            for number, part in enumerate(written)
            for laid in _on(text, part, lines[number : number + 1], number, effort)
        ]
    except TooMuch:
        return list(_dealt(atoms, lines, 0))


def is_broken(before: Laid, laid: Laid) -> bool:
    """Whether two neighbours are parts of one word, on two lines."""
    return before.word and laid.word and before.end == laid.start and before.line != laid.line


def _on(text: str, atoms: list[Atom], lines: Sequence[Line], first: int, effort: Effort) -> list[Laid]:
    """Lay the atoms on all ``lines``, which are numbered from ``first``."""
    ideographs, backwards = not all(atom.word for atom in atoms), is_right_to_left(text)
    found: list[tuple[float, Place, _State, list[Row]]] = []
    for em, look in _looks(atoms, lines, effort):
        rows = [row_of(line, em, ideographs=ideographs, backwards=backwards) for line in lines]
        found.append((*_best(text, atoms, rows, look), rows))
        if found[-1][0] <= GOOD * len(atoms):
            break
    _, place, state, rows = min(found, key=lambda one: one[0])
    read = _read(state, rows, first)
    rest = [part for part in [rest_of(text, atoms, *place)] if part] + atoms[place[0] + 1 :]
    held = max((number for number, row in enumerate(read) if row), default=-1)
    free = min(held + 1, len(lines) - 1)
    laid = [laid for row in read for laid in row] + list(_dealt(rest, lines[free:], first + free))
    return list(_whole(atoms, laid))


def _looks(atoms: Sequence[Atom], lines: Sequence[Line], effort: Effort) -> Iterator[tuple[float, _Look]]:
    """Guesses of an em in pixels, each with a look: from the lengths of print and text, then from the height of the
    lines."""
    by_text = max(sum(map(length, lines)) / max(sum(map(_room, atoms)), 0.1), 0.1)
    near, far = _Look(effort, 10.0, 5, skips=False), _Look(effort, 16.0, 10, skips=True)
    if by_text >= LEAST_EM:
        yield by_text, near
        yield by_text, far
    heights = [line.box.width if line.down else line.box.height for line in lines]
    yield max(statistics.median(heights) / HEIGHT, 0.1), far


def _best(text: str, atoms: list[Atom], rows: Sequence[Row], look: _Look) -> tuple[float, Place, _State]:
    """The likeliest way to lay the atoms onto the rows: what it costs, where it ends, and the way."""
    left = [0.0]
    for atom in reversed(atoms):
        left.append(left[-1] + atom.ems)
    left.reverse()
    states: dict[Place, _State] = {(0, 0): _State(0.0, None, None, 0.0)}
    for row in rows:
        states = _further(row, text, atoms, states, look)
    cost, place = min((state.cost + LEFT_EM * left[place[0]], place) for place, state in states.items())
    return cost, place, states[place]


def _whole(atoms: list[Atom], laid: list[Laid]) -> Iterator[Laid]:
    """Adds the words without ink, each beside the one before it."""
    at, before = 0, laid[0]
    for atom in atoms:
        done = atom.start
        while at < len(laid) and laid[at].start < atom.end:
            if laid[at].start > done:
                yield before._replace(start=done, end=laid[at].start, sure=False, word=atom.word)
            before, done = laid[at], laid[at].end
            yield before
            at += 1
        if done < atom.end:
            yield before._replace(start=done, end=atom.end, sure=False, word=atom.word, glued=atom.glued)


def _room(atom: Atom) -> float:
    return atom.ems + (0.0 if atom.glued else BLANK)


def _further(row: Row, text: str, atoms: list[Atom], states: dict[Place, _State], look: _Look) -> dict[Place, _State]:
    following: dict[Place, _State] = {}
    for place, state in states.items():
        ways = {end: _State(state.cost + cost, state, path, cost)
                for end, (cost, path) in _ways(row, text, atoms, place, look).items()}  # fmt: skip
        empty = _State(state.cost + SKIPPED_INK + SKIPPED_EM * row.ems, state, None, 0.0)
        for end, way in [*ways.items(), (place, empty)]:
            if end not in following or way.cost < following[end].cost:
                following[end] = way
    best = min(state.cost for state in following.values())
    near = sorted((state.cost, place) for place, state in following.items() if state.cost <= best + 2 * look.worse)
    return {place: following[place] for _, place in near[: look.beam]}


Reached = dict[int, tuple[float, "_Path | None"]]  # runs that are covered: what it costs, and how
Found = dict[Place, tuple[float, _Path]]


def _ways(row: Row, text: str, atoms: Sequence[Atom], place: Place, look: _Look) -> Found:
    """The ways to cover the row with the atoms from ``place`` on: what each costs, by where it ends."""
    count, ems = len(row.low), 0.0
    index, said = place
    found: Found = {}
    reached: Reached = {run: (SKIPPED_RUN * run, None) for run in range(min(MOST_SKIPPED + 1, count))}
    while index < len(atoms) and reached and ems <= LONGER * row.ems + 1:
        atom = atoms[index]
        if said:
            atom = part_of(text, atom.start + said, atom.end)
        for at, ending, penalty in breaks_of(text, atom, row.hyphen):
            look.effort.spend(at + len(reached))  # its letters are measured
            _end(row, part_of(text, atom.start, atom.start + at), ending, penalty, reached, (index, said + at), found)
        following = _covered(row, atom, reached, look.effort)
        for run, (cost, path) in following.items():
            if path is not None and (look.skips or count - run <= MOST_SKIPPED):
                _keep(found, (index + 1, 0), cost + _skipped(row, run, count), path)
        for run, (cost, path) in reached.items() if look.skips else ():
            cost += SKIPPED_WORD + LEFT_EM * atom.ems
            if run not in following or cost < following[run][0]:
                following[run] = (cost, path)
        parted = index + 1 < len(atoms) and not atoms[index + 1].glued
        reached = _nearest(row, following, parted, look)
        ems += _room(atom)
        index, said = index + 1, 0
    return found


def _covered(row: Row, atom: Atom, reached: Reached, effort: Effort) -> Reached:
    """With the atom on the runs behind those that are covered."""
    following: Reached = {}
    most, tells = atom.ems + TOO_WIDE * atom.unsure, atom.word or atom.ems <= 1  # white in a formula tells nothing
    for run, (cost, path) in reached.items():
        for last in range(run, len(row.low)):
            ems = row.high[last] - row.low[run]
            if ems > most and last > run:
                break
            total = cost + ((ems - atom.ems) / atom.unsure) ** 2
            if tells:
                total += row.inside[last] - row.inside[run]
            if last + 1 not in following or total < following[last + 1][0]:
                following[last + 1] = (total, _Path(path, atom, run, last))
        effort.spend(last - run + 1)
    return following


def _nearest(row: Row, reached: Reached, parted: bool, look: _Look) -> Reached:
    """The likeliest beginnings of the next atom, ``parted`` from the last by a blank."""
    found = {
        run: (cost + row.before[run] if parted else cost, path)
        for run, (cost, path) in reached.items()
        if run < len(row.low)
    }
    best = min((cost for cost, _ in found.values()), default=0.0)
    if parted and look.skips:
        for run, (cost, path) in list(found.items()):
            for other in range(run + 1, len(row.low)):
                more = cost + _skipped(row, run, other)
                if more > best + look.worse:
                    break
                look.effort.spend(1)
                if row.before[other] <= PARTED and (other not in found or more < found[other][0]):
                    found[other] = (more, path)
    near = sorted((cost, run) for run, (cost, _) in found.items() if cost <= best + look.worse)
    return {run: found[run] for _, run in near[: 2 * look.beam]}


def _skipped(row: Row, run: int, other: int) -> float:
    """How unlikely it is that no word stands on the ink from one run to before the other."""
    if run == other:
        return 0.0
    words = SKIPPED_INK + SKIPPED_EM * (row.high[other - 1] - row.low[run])
    return min(words, SKIPPED_RUN * (other - run)) if other - run <= MOST_SKIPPED else words


def _end(row: Row, part: Atom, hyphen: float, penalty: float, reached: Reached, place: Place, found: Found) -> None:
    """The row ends with this part of an atom."""
    last = len(row.low) - 1
    for run, (cost, path) in reached.items():
        off = (row.high[last] - row.low[run] - part.ems - hyphen) / part.unsure
        if abs(off) <= TOO_WIDE:
            total = cost + penalty + off**2 + row.inside[last] - row.inside[run]
            _keep(found, place, total, _Path(path, part, run, last))


def _keep(found: Found, place: Place, cost: float, path: _Path) -> None:
    if place not in found or cost < found[place][0]:
        found[place] = (cost, path)


def _read(state: _State | None, rows: Sequence[Row], first: int) -> list[list[Laid]]:
    """What each row holds."""
    found: list[list[Laid]] = []
    for number in range(len(rows) - 1, -1, -1):
        assert state is not None, "there is one for each row"
        held: list[Laid] = []
        path = state.path
        while path is not None:
            box, atom = around(rows[number].boxes[path.first : path.last + 1]), path.atom
            held.append(Laid(atom.start, atom.end, first + number, box, True, atom.word, atom.glued))
            path = path.earlier
        sure = state.of_line <= TRUSTED * len(held)
        found.append([laid._replace(sure=sure) for laid in reversed(held)])
        state = state.earlier
    return found[::-1]


def _dealt(atoms: list[Atom], lines: Sequence[Line], first: int) -> Iterator[Laid]:
    """By lengths alone."""
    whole, room = sum(map(_room, atoms)), sum(map(length, lines)) or 1.0
    due = reached = 0.0
    end = 0
    for number, line in enumerate(lines):
        due += length(line) / room * whole
        begin = end
        while end < len(atoms) and (reached + _room(atoms[end]) / 2 <= due or number == len(lines) - 1):
            reached += _room(atoms[end])
            end += 1
        held = atoms[begin:end]
        ends = [0.0]
        for atom in held:
            ends.append(ends[-1] + _room(atom))
        boxes = cut(line.box, [at / ends[-1] for at in ends], line.down) if held else []
        for atom, box in zip(held, boxes, strict=True):
            yield Laid(atom.start, atom.end, first + number, box, False, atom.word, atom.glued)
