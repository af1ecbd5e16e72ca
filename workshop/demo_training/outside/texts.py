# SPDX-License-Identifier: Apache-2.0
"""Prose of Debian's plain-text documents, for pages that are set for judging."""

from __future__ import annotations

import random
import re
from pathlib import Path

from .packages import plain

SHORTEST, LONGEST = 80, 2500  # characters of a paragraph


def paragraphs(folder: Path) -> list[str]:
    """Paragraphs of the texts below ``folder``: printable ASCII, mostly letters."""
    found: dict[str, None] = {}
    for path in sorted(folder.rglob("*")):
        if path.name.removesuffix(".gz").endswith(".txt") and path.is_file():
            for part in re.split(r"\n\s*\n", plain(path).decode(errors="replace")):
                text = " ".join(part.split())
                letters = sum(letter.isalpha() or letter == " " for letter in text)
                if SHORTEST <= len(text) <= LONGEST and text.isascii() and letters > 0.88 * len(text):
                    found[text] = None
    if len(found) < 20:
        raise FileNotFoundError(f"{folder} has {len(found)} paragraphs of prose; expected 20 at least")
    return list(found)


class Quoted:
    """A document's text, of these paragraphs only."""

    def __init__(self, rng: random.Random, paragraphs: list[str]) -> None:
        self._rng, self._paragraphs = rng, paragraphs

    def paragraph(self) -> str:
        return " ".join(self._rng.choice(self._paragraphs) for _ in range(self._rng.choice((1, 1, 2, 4))))

    def title(self) -> str:
        return " ".join(self._rng.choice(self._paragraphs).split()[: self._rng.randint(2, 6)]).rstrip(".,;:")

    def code(self) -> list[str]:
        words = self._rng.choice(self._paragraphs).split()
        return [" ".join(words[first : first + 5]) for first in range(0, min(len(words), 25), 5)]

    def term(self) -> str:
        return self._rng.choice(self._rng.choice(self._paragraphs).split())

    def item(self) -> str:
        return " ".join(self._rng.choice(self._paragraphs).split()[: self._rng.randint(4, 30)])
