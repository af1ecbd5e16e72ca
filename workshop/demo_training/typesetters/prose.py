# SPDX-License-Identifier: Apache-2.0
"""What the typesetters set: the docstrings of Python's library, sentences drawn by lot, and lines of code.

Docstrings are prose that people wrote; drawn sentences keep the model from guessing words instead of reading them.
"""

from __future__ import annotations

import ast
import random
import re
import string
import sysconfig
import textwrap
import zlib
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Protocol

from ..drawing.words import SPLITS, TextSource

SHORTEST, LONGEST = 40, 1600  # characters of a paragraph
NAMES = re.compile(r"[A-Za-z_]\w+")
FOLDERS = ("test", "idlelib", "lib2to3", "site-packages", "dist-packages")  # not the library itself


@lru_cache(maxsize=None)
def library(split: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Paragraphs of docstrings, and lines of code, of Python's own library.

    One file in ten is held out by the CRC-32 of its name. Raises ValueError for an unknown split.
    """
    if split not in SPLITS:
        raise ValueError(f"split {split!r} is unknown; expected one of {SPLITS}")
    root = Path(sysconfig.get_paths()["stdlib"])
    paragraphs: dict[str, None] = {}
    code: dict[str, None] = {}
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root)
        if set(name.parts) & set(FOLDERS) or (zlib.crc32(str(name).encode()) % 10 == 0) != (split == "heldout"):
            continue
        try:
            source = path.read_text(encoding="ascii")
            tree = ast.parse(source)
        except (ValueError, SyntaxError):  # not ASCII, or kept to be wrong
            continue
        paragraphs |= dict.fromkeys(text for node in ast.walk(tree) for text in _prose(node))
        lines = (line.rstrip() for line in source.splitlines())
        code |= dict.fromkeys(line for line in lines if line.isprintable() and 4 <= len(line.strip()) <= 70)
    return tuple(paragraphs), tuple(code)


def _prose(node: ast.AST) -> Iterator[str]:
    if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        return
    for part in textwrap.dedent(ast.get_docstring(node) or "").split("\n\n"):
        text = " ".join(part.split())
        letters = sum(letter.isalpha() or letter == " " for letter in text)
        if SHORTEST <= len(text) <= LONGEST and text.isprintable() and letters > 0.85 * len(text) and ">>>" not in text:
            yield text


def _code_name(rng: random.Random) -> str:
    """Letters and digits in a row that are no word: l and 1, O and 0, z and 2 must be told by their look."""
    letters = string.ascii_lowercase if rng.random() < 0.7 else string.ascii_uppercase
    return "".join(rng.choice(letters if rng.random() < 0.75 else string.digits) for _ in range(rng.randint(2, 8)))


class Text(Protocol):
    """What a document is made of."""

    def paragraph(self) -> str: ...

    def title(self) -> str: ...

    def code(self) -> list[str]:
        """Lines of one block of code."""

    def item(self) -> str:
        """One item of a list."""

    def term(self) -> str:
        """What stands in a typewriter's face within a paragraph."""


class Prose:
    """Text of one document of training."""

    def __init__(self, rng: random.Random, split: str) -> None:
        self.rng = rng
        self._source = TextSource(split, rng, strange=rng.uniform(0.01, 0.2) ** 1.5)
        self._paragraphs, self._code = library(split)

    def paragraph(self) -> str:
        """One paragraph of 40 to about 3000 printable ASCII characters; a few are shouted, as in licences."""
        text = self._paragraph()
        return text.upper() if self.rng.random() < 0.1 else text

    def _paragraph(self) -> str:
        roll = self.rng.random()
        if roll < 0.4:
            return self.rng.choice(self._paragraphs)
        if roll < 0.62:  # paragraphs of 10 to 40 lines are where the place gets lost
            return " ".join(self.rng.choice(self._paragraphs) for _ in range(self.rng.randint(2, 6)))[:3000]
        count = round(self.rng.uniform(2, 14) ** 2)
        words = list(islice(self._source.stream(0.02, 0.02), max(8, count)))
        return " ".join(words)

    def title(self) -> str:
        count = self.rng.randint(1, 7)
        words = self._source.sentence(count).rstrip(".?!")
        return words.title() if self.rng.random() < 0.4 else words

    def code(self) -> list[str]:
        if self.rng.random() < 0.4:
            return [self._command() for _ in range(self.rng.randint(1, 8))]
        first = self.rng.randrange(len(self._code) - 20)
        return list(self._code[first : first + self.rng.randint(1, 14)])

    def _command(self) -> str:
        """A line as of a shell, a grammar or a table of options: terms, and marks between them."""
        rng = self.rng
        terms = [self.term() for _ in range(rng.randint(1, 6))]
        line = rng.choice((" ", " ", " ", "|", " | ", ", ", "  ")).join(terms)
        if rng.random() < 0.25:
            line = f"{rng.choice(('$', '#', '%', '>'))} {line}"
        return line[:70].strip() or "ls"

    def term(self) -> str:
        """What manuals set in a typewriter's face: names, options, calls, files, numbers."""
        rng = self.rng
        name = rng.choice(NAMES.findall(rng.choice(self._code)) or ["name"])
        if rng.random() < 0.3:  # that nothing but the print tells
            name = self._source.strange_word() if rng.random() < 0.4 else _code_name(rng)
        kind = rng.randrange(12)
        if kind == 0:
            return f"--{name.lower().replace('_', '-')}"
        if kind == 1:
            return f"-{rng.choice(string.ascii_letters)}"
        if kind == 2:
            return f"{name.lower()}.{rng.choice(('c', 'py', 'h', 'txt', 'gz', 'bz2', 'conf', 'html', 'tar'))}"
        if kind == 3:
            return f"/{'/'.join(NAMES.findall(rng.choice(self._code))[:3])}"
        if kind == 4:
            return rng.choice(self._code).strip()[: rng.randint(6, 40)].strip()
        if kind == 5:
            return f"{name}{rng.choice(('()', '[]', '=', ':', ';', '*'))}"
        if kind == 6:
            return f"{name.lower()}{rng.randint(0, 99)}"
        if kind == 7:
            return rng.choice(("|", "/", "=", "_", "-", ".", ":")).join(self._names(2, 4))
        if kind == 8:
            return f"{name.lower()}({rng.randint(1, 9)})"
        if kind == 9:
            return rng.choice(("[%s]", "<%s>", "{%s}", '"%s"', "'%s'", "$%s", "@%s", "*%s*")) % name
        return name.upper() if kind == 10 else name

    def _names(self, low: int, high: int) -> list[str]:
        found = NAMES.findall(" ".join(self.rng.choice(self._code) for _ in range(3))) or ["name"]
        return [self.rng.choice(found)[:10] for _ in range(self.rng.randint(low, high))]

    def item(self) -> str:
        if self.rng.random() < 0.5:
            return " ".join(islice(self._source.stream(), self.rng.randint(2, 24)))
        return self.rng.choice(self._paragraphs)[: self.rng.randint(40, 300)].rsplit(" ", 1)[0]
