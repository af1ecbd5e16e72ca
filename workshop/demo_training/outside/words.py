# SPDX-License-Identifier: Apache-2.0
"""Words that were lost or invented, against a PDF's text layer."""

from __future__ import annotations

import re
import unicodedata

from ..scores import edit_distance

# pdfium marks a hyphen that parts a word with one of the last two.
PARTED = re.compile(r"(?<=[a-zA-Z])([-\u2010]\s*\n\s*(?=[a-z])|[\u00ad\x02\ufffe]\s*)")
EDGES = "'\"`.,;:!?()[]{}<>*_#|\u2022-"
QUOTES = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u2013": "-", "\u2014": "-"})


def words(text: str) -> list[str]:
    """Words without the punctuation around them; what has neither letter nor digit is none. A word that a hyphen parts
    at a line's end is one."""
    text = unicodedata.normalize("NFKC", PARTED.sub("", text)).translate(QUOTES)
    found = (word.strip(EDGES) for word in text.replace("-", " ").split())
    return [word for word in found if any(letter.isalnum() for letter in word)]


def wrong(truth: list[str], said: list[str]) -> int:
    """How many words must be put in, taken out or changed."""
    number = {word: chr(0x100 + index) for index, word in enumerate(dict.fromkeys([*truth, *said]))}
    return edit_distance("".join(number[word] for word in said), "".join(number[word] for word in truth))
