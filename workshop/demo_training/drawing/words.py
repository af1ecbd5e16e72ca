# SPDX-License-Identifier: Apache-2.0
"""English-looking text for training, with words that are held out for measuring.

The word list is Debian's ``wamerican``. A word belongs to the held-out split when its
CRC-32 is divisible by ten, so both splits are the same on every machine. Function words
are in both: no page of English can be drawn without them.
"""

from __future__ import annotations

import random
import string
import zlib
from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

WORD_LIST = Path("/usr/share/dict/american-english")
SPLITS = ("train", "heldout")
PUNCTUATION = "".join(c for c in string.printable if c.isprintable() and not c.isalnum() and c != " ")
PRINTABLE = "".join(chr(code) for code in range(33, 127))

# The commonest words of written English, most frequent first; drawn with 1/rank weights.
COMMON = (
    "the of and to a in I is that for it as was with be by on not he his but at are this have from or had an "
    "they which one you were all her she there would their we him been has when who will no more if out so "
    "up said what its about than into them can only other time new some could these two may first then do any "
    "like my now over such our man me even most made after also did many off before must well back through "
    "years much where your way down should because long each just state those people too how good make world "
    "still see own work men day get here between both life being under three never know same last another "
    "while us might great go come since against right came take used himself few house use place during high "
    "without again home around small however found part school upon think every number water report page total "
    "date name order table figure section year month price amount item service system data model result company"
).split()
_COMMON_WEIGHTS = [1 / (rank + 4) for rank in range(len(COMMON))]


@lru_cache(maxsize=None)
def words(split: str) -> tuple[str, ...]:
    """Dictionary words of one split; ASCII letters and apostrophes only."""
    if split not in SPLITS:
        raise ValueError(f"split {split!r} is unknown; expected one of {SPLITS}")
    if not WORD_LIST.exists():
        raise FileNotFoundError(f"word list {WORD_LIST} not found; install it with: apt-get install wamerican")
    held_out = split == "heldout"
    return tuple(
        word
        for word in WORD_LIST.read_text(encoding="utf-8").split()
        if word.isascii() and len(word) <= 14 and (zlib.crc32(word.encode()) % 10 == 0) == held_out
    )


class TextSource:
    """Draws words, numbers, codes and sentences from one split with its own random stream."""

    def __init__(self, split: str, rng: random.Random, strange: float = 0.12):
        """``strange`` is the share of words that are not English: random strings, numbers, codes."""
        self.rng = rng
        self.strange = strange
        self.vocabulary = words(split)

    def word(self) -> str:
        rng = self.rng
        if rng.random() < self.strange:
            return self.strange_word()
        if rng.random() < 0.45:
            word = rng.choices(COMMON, _COMMON_WEIGHTS)[0]
        else:
            word = rng.choice(self.vocabulary)
        roll = rng.random()
        if roll < 0.08:
            return word.capitalize()
        return word.upper() if roll < 0.11 else word

    def strange_word(self) -> str:
        rng = self.rng
        kind = rng.randrange(12)
        if kind == 0:
            return "".join(rng.choices(PRINTABLE, k=rng.randint(1, 8)))
        if kind == 1:
            return "".join(rng.choices(string.ascii_letters + string.digits, k=rng.randint(2, 9)))
        if kind == 2:
            return str(rng.randrange(10 ** rng.randint(1, 6)))
        if kind == 3:
            sign, whole = rng.choice(["$", "", "", "-", "+"]), rng.randrange(10 ** rng.randint(1, 5))
            return f"{sign}{whole:,}.{rng.randrange(100):02d}"
        if kind == 4:
            return f"{rng.randint(1950, 2035)}-{rng.randint(1, 12):02d}-{rng.randint(1, 31):02d}"
        if kind == 5:
            return f"{rng.randrange(100)}{rng.choice(['%', '.5%', ' kg', ' mm', ':00', '/7', 'th', ' GB'])}"
        if kind == 6:
            return f"{''.join(rng.choices(string.ascii_uppercase, k=rng.randint(1, 3)))}-{rng.randrange(10000)}"
        if kind == 7:
            return rng.choice(PUNCTUATION)
        if kind == 8:
            return rng.choice(
                [f"{rng.randrange(24)}:{rng.randrange(60):02d}", f"{rng.randint(1, 12)}.", f"{rng.randint(1, 9)})"]
            )
        first, second = rng.choice(self.vocabulary), rng.choice(self.vocabulary)
        if kind == 9:
            return f"{first}-{second}".lower()
        if kind == 10:
            letters = "".join(rng.choices(string.ascii_uppercase, k=2))
            return rng.choice(
                [
                    f"{letters}-{rng.randrange(10000)}/{rng.randrange(30):02d}",
                    f"{first[0]}.{second}@{first}.{rng.choice(['com', 'org', 'net', 'example'])}".lower(),
                ]
            )
        return f"{first}{rng.choice(['@', '/', '_', '.', '=', '+', '&', '#'])}{second}"

    def sentence(self, count: int | None = None) -> str:
        """A capitalised run of ``count`` words (3 to 16 by default) with punctuation of its own."""
        rng = self.rng
        chosen = [self.word() for _ in range(count or rng.randint(3, 16))]
        chosen[0] = chosen[0][:1].upper() + chosen[0][1:]
        for index in range(len(chosen) - 1):
            roll = rng.random()
            if roll < 0.07:
                chosen[index] += ","
            elif roll < 0.10:
                chosen[index] += rng.choice([";", ":", " -", "..."])
            elif roll < 0.12:
                chosen[index] = f"({chosen[index]})"
            elif roll < 0.14:
                chosen[index] = f'"{chosen[index]}"'
        return " ".join(chosen) + rng.choice(".....?!")

    def stream(self, echo: float = 0.0, phrases: float = 0.0) -> Iterator[str]:
        """An endless stream of the words of sentences, for filling lines.

        ``echo`` is the share of words that are said again within a few words: "2025" twice in a line is common
        in print, rare in random text, and a reader that finds its place by the last word alone loses it there.
        ``phrases`` is how often, per word, two to six words of the last eighty come again in a row, as "the terms
        of this licence" does in prose.
        """
        recent: deque[str] = deque(maxlen=12)
        said: deque[str] = deque(maxlen=80)
        while True:
            for word in self.sentence().split(" "):
                if echo and recent and self.rng.random() < echo:
                    yield self.rng.choice(recent)
                if phrases and len(said) > 8 and self.rng.random() < phrases:
                    first = self.rng.randrange(len(said) - 6)
                    yield from list(said)[first : first + self.rng.randint(2, 6)]
                recent.append(word)
                said.append(word)
                yield word
