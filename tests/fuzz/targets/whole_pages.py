# SPDX-License-Identifier: Apache-2.0
"""Answers for whole pages: Markdown in blocks, and texts with places. No text is lost, no box leaves its page."""

from __future__ import annotations

from docparser.whole_page import WholePageBlock, blocks_in, formula_of, texts_of
from tests.fuzz.choices import Choices
from tests.fuzz.verdict import Broken

WORDS = (
    *("(1,2),(3,4)", "(", ")", ",", "-", "1", "999", "1001", "0.5", "9" * 12, " ", "\n", "\n\n", "word", "字", "# "),
    *("###### ", "<table>", "</table>", "<tr><td>", "$$", "\\[", "\\]", "```", "~~~", "```markdown\n", "|", "|---|\n"),
)


def target(data: bytes) -> None:
    choices = Choices(data)
    size = 1 + choices.below(3000), 1 + choices.below(3000)
    page, text = (0, 0, *size), choices.text(WORDS)
    spotted, troubles = texts_of(text, 1 + choices.below(2000), size)
    if not isinstance(troubles, str | None):
        raise Broken("troubles are told in words")
    for blocks in (spotted, blocks_in(text, page), formula_of(text, page)):
        check(blocks, text, size)


def check(blocks: list[WholePageBlock], text: str, size: tuple[int, int]) -> None:
    for block in blocks:
        left, top, right, bottom = block.box
        if not (0 <= left < right <= size[0] and 0 <= top < bottom <= size[1]):
            raise Broken("a box lies on its page, and is not empty")
        if not block.content.strip():
            raise Broken("a block has a text")
    if sum(block.content.count("字") for block in blocks) != text.count("字"):
        raise Broken("no text is lost, and none said twice")


def seeds() -> list[bytes]:
    return [bytes(range(start, start + 60)) for start in range(0, 180, 30)]
