# SPDX-License-Identifier: Apache-2.0
"""What the VLM's texts of a page come to: tables as HTML, formulas, spotted texts, figures back in their tables.

PaddleX does it. Some of that takes the square of a text's length, in time or in memory: a table's markup of 100 KB
becomes a grid of gigabytes, and a printed page can make the VLM write such markup. So the texts leave the loop as plain
data, and are put together in a child process with bounds (``worker.text_jobs``).
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from docparser.page.blocks import SPOTTING, TABLE, Blocks
from docparser.page.paddlex_private import (
    PaddleOCRVLBlock,
    assembled,
    convert_otsl_to_html,
    untokenize_figure_of_table,
)

PLAIN = ("label", "box", "group_id", "polygon_points")


@dataclasses.dataclass(frozen=True)
class Answers:
    """Plain data. ``blocks``: of each its fields of PLAIN and ``size`` (height, width); by the block's number its
    ``texts``, the ``figures`` in it and whether it stands ``inside`` a table; ``pictured``: see ``Blocks``; ``exact``:
    blocks whose texts are the page's own, in which no sign is a mark of the VLM's."""

    blocks: list[dict[str, Any]]
    texts: dict[int, str]
    figures: dict[int, dict[str, str]]
    inside: frozenset[int]
    pictured: list[str]
    exact: frozenset[int] = frozenset()

    @classmethod
    def of(cls, blocks: Blocks, texts: dict[int, str], exact: frozenset[int] = frozenset()) -> Answers:
        return cls(
            [_plain(block) for block in blocks.cut], texts, blocks.figures, blocks.inside, blocks.pictured, exact
        )

    def part(self, numbers: list[int], texts: dict[int, str]) -> Answers:
        """Some of the blocks, with ``texts`` of theirs."""
        place = {number: at for at, number in enumerate(numbers)}
        return Answers(
            [self.blocks[number] for number in numbers],
            {place[number]: texts[number] for number in numbers if number in texts},
            {place[number]: self.figures[number] for number in numbers if number in self.figures},
            frozenset(place[number] for number in numbers if number in self.inside),
            self.pictured,
            frozenset(place[number] for number in numbers if number in self.exact),
        )

    def read(self) -> tuple[list[PaddleOCRVLBlock], dict[str, Any]]:
        """The page's blocks with their texts, without those inside tables; and PaddleX's ``spotting_res``. Computes
        over what the VLM wrote, so it belongs into a child process."""
        try:
            return self._read(frozenset())
        except IndexError:  # PaddleX 3.7.2 looks for cells beyond the end of a row: ``<fcel><xcel><nl><xcel>``
            tables = (number for number in self.texts if self.blocks[number]["label"] == TABLE)
            return self._read(frozenset(number for number in tables if not makes_table(self.texts[number])))

    def _read(self, as_text: frozenset[int]) -> tuple[list[PaddleOCRVLBlock], dict[str, Any]]:
        """``as_text``: tables whose marks make none."""
        given = [
            {**block, "label": "text" if number in as_text else block["label"], "img": _empty(*block["size"])}
            for number, block in enumerate(self.blocks)
        ]
        blocks, spotted = assembled(given, self.texts, self.figures, self.pictured)
        pictures = {block.image["path"]: block for block in blocks if block.image is not None}
        for block, figures in ((blocks[number], self.figures[number]) for number in as_text):
            block.label, block.content = TABLE, untokenize_figure_of_table(block.content, figures, pictures)
        for number in self.exact & self.texts.keys():
            blocks[number].content = self.texts[number]
        return [block for number, block in enumerate(blocks) if number not in self.inside], spotted


def makes_table(otsl: str) -> bool:
    """Whether PaddleX makes HTML of a table's text, which ``assembled`` does; texts without marks count, too."""
    try:
        convert_otsl_to_html(otsl)
    except IndexError:
        return False
    return True


def _plain(block: dict[str, Any]) -> dict[str, Any]:
    size = block["img"].shape[:2] if block["label"] == SPOTTING else (1, 1)
    return {field: block.get(field) for field in PLAIN} | {"size": size}


def _empty(height: int, width: int) -> np.ndarray:
    """A picture of a block: PaddleX asks for its size alone."""
    return np.broadcast_to(np.zeros((1, 1, 3), np.uint8), (height, width, 3))
