# SPDX-License-Identifier: Apache-2.0
"""How many tokens a text may have. Each model has its own tokenizer; this is an estimate for all, rather high."""

from __future__ import annotations

import re

# A character of a script without blanks is about one token; of a word, four letters are; of signs, each one.
WITHOUT_BLANKS = "\u0e00-\u0fff\u1780-\u17ff\u2e80-\u9fff\ua000-\ua4cf\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
PIECES = re.compile(rf"([{WITHOUT_BLANKS}])|([^\W_{WITHOUT_BLANKS}]+)|([^\w\s]|_)")
LETTERS = 4


def estimate(text: str) -> int:
    count = 0
    for piece in PIECES.finditer(text):
        count += -(-len(piece[2]) // LETTERS) if piece[2] else 1
    return count
