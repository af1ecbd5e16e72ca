# SPDX-License-Identifier: Apache-2.0
"""A page cut into its blocks, what the VLM is asked about each, and what its texts come to: tables as HTML, formulas,
spotted texts, figures back in their tables.

PaddleX does the last. Some of that takes the square of a text's length, in time or in memory: a table's markup of
100 KB becomes a grid of gigabytes, and a printed page can make the VLM write such markup. So the texts leave the loop
as plain data (``BlockTexts``), and are put together in a child process with bounds (``worker.text_jobs``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import cv2
import numpy as np
from PIL import Image

from docparser.contract.schemas import ParseOptions
from docparser.page.paddlex_private import (
    IMAGE_LABELS,
    PaddleOCRVLBlock,
    assembled_blocks,
    construct_img_path,
    convert_otsl_to_html,
    crops_and_prompts,
    cut_blocks,
    filter_overlap_boxes,
    merged_blocks,
    untokenize_figure_of_table,
    with_boxes_at_least,
)
from docparser.page.question import Question, pixel_bounds

SPOTTING, TABLE = "spotting", "table"
FORMULAS = ("display_formula", "formula")  # labels of those that are blocks by themselves
PLAIN = ("label", "box", "group_id", "polygon_points")


@dataclasses.dataclass(frozen=True)
class Blocks:
    """The blocks of a page by their numbers, in reading order.

    ``cut``: PaddleX's blocks, each with its picture ``img``, uint8 ``[height, width, 3]``, blue first. ``questions``:
    of the blocks that the VLM reads. ``figures``: of a table, where its figures' pictures lie, by the tokens painted
    over them. ``paths``: of the blocks that are shown as pictures. ``inside``: of them, those that stand in a table and
    nowhere else. ``pictured``: labels of blocks that are shown as pictures. ``spotting``: texts are asked for with
    their places. ``further``: blocks that the layout model has not found.
    """

    cut: list[dict[str, Any]]
    questions: dict[int, Question]
    figures: dict[int, dict[str, str]]
    paths: dict[int, str]
    inside: frozenset[int]
    pictured: list[str]
    spotting: bool
    further: frozenset[int] = frozenset()

    def joined(self, number: int) -> list[int]:
        """The block and those that were joined to it, whose texts are asked for as one."""
        group = self.cut[number].get("group_id")
        if group is None:
            return [number]
        return [other for other, block in enumerate(self.cut) if block.get("group_id") == group]

    def joining(self, numbers: list[int]) -> Blocks:
        """The blocks, of which the first of these has the text of all, as with those that PaddleX has joined."""
        if len(numbers) == 1:
            return self
        cut = [
            block | {"group_id": numbers[0]} if number in numbers else block for number, block in enumerate(self.cut)
        ]
        return dataclasses.replace(self, cut=cut)

    @property
    def shown(self) -> list[int]:
        """The blocks that the page has, where those inside tables are left out."""
        return [number for number in range(len(self.cut)) if number not in self.inside]

    def picture(self, number: int) -> dict[str, Any] | None:
        """What Markdown shows of a block: ``{path, img}``."""
        if number not in self.paths:
            return None
        red_first = cv2.cvtColor(self.cut[number]["img"], cv2.COLOR_BGR2RGB)
        return {"path": self.paths[number], "img": Image.fromarray(red_first)}


def apart(boxes: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The boxes of a layout without those around all entries of a list of references: PaddleX makes no block of one, so
    print that lies in it and in no entry is in no block."""
    return [box for box in boxes if box["label"] != "reference"]


def page_blocks(
    page: np.ndarray,
    boxes: list[dict[str, Any]],
    figures: list[dict],
    settings: dict[str, Any],
    options: ParseOptions,
    further: Sequence[Sequence[float]] = (),
) -> Blocks:
    """``page``: uint8 ``[height, width, 3]``, blue first; ``boxes``: of its layout, in reading order; ``figures``:
    pictures on it, which may stand in tables; ``further``: boxes of text (left, top, right, bottom) that none of
    ``boxes`` holds."""
    shape_mode = options.shape_mode
    unread = [] if settings["use_ocr_for_image_block"] else list(IMAGE_LABELS)
    pictured = [*IMAGE_LABELS, "seal"]
    if not settings["use_chart_recognition"]:
        unread.append("chart")
        pictured.append("chart")
    if not settings["use_seal_recognition"]:
        unread.append("seal")

    distinct = with_boxes_at_least(lambda mode: filter_overlap_boxes({"boxes": boxes}, mode), shape_mode)
    blocks = cut_blocks(page, distinct["boxes"], shape_mode)
    if settings["merge_layout_blocks"]:
        blocks = merged_blocks(blocks, unread)
    blocks, added = with_further(page, blocks, further)
    reading = {
        "image_labels": unread,
        "use_chart_recognition": settings["use_chart_recognition"],
        "use_seal_recognition": settings["use_seal_recognition"],
        **pixel_bounds(options),
    }
    asked, spotting, in_tables = crops_and_prompts(blocks, figures, reading)
    paths = {
        number: construct_img_path(block["label"], block["box"])
        for number, block in enumerate(blocks)
        if block["label"] in pictured and block["img"] is not None
    }
    return Blocks(
        blocks,
        {number: Question(crop, prompt, *pixels) for _, number, crop, prompt, pixels, _ in asked},
        {number: tokens for _, number, _, _, _, tokens in asked},
        paths,
        frozenset(number for number, path in paths.items() if path in in_tables),
        pictured,
        spotting,
        added,
    )


def with_further(
    page: np.ndarray, blocks: list[dict[str, Any]], further: Sequence[Sequence[float]]
) -> tuple[list[dict[str, Any]], frozenset[int]]:
    """The blocks with text blocks for the boxes ``further``, each behind the block that stands next above it in its
    column; and the numbers of these."""
    if not further:
        return blocks, frozenset()
    first = {block.get("group_id"): block for block in reversed(blocks)}  # of each group
    blocks, added = list(blocks), []
    for box in further:
        left, top, right, bottom = (int(side) for side in box)
        new = {"label": "text", "box": list(box), "img": page[top : bottom + 1, left : right + 1].copy()}
        blocks.insert(_position(box, [block["box"] for block in blocks]), new)
        added.append(new)
    numbers = {id(block): number for number, block in enumerate(blocks)}
    moved = [
        block if block.get("group_id") is None else block | {"group_id": numbers[id(first[block["group_id"]])]}
        for block in blocks
    ]
    return moved, frozenset(numbers[id(block)] for block in added)


def _position(box: Sequence[float], boxes: list[Sequence[float]]) -> int:
    """The position of a block among others that are in reading order."""
    middle = (box[1] + box[3]) / 2
    column = [number for number, other in enumerate(boxes) if other[0] < box[2] and other[2] > box[0]]
    above = [number for number in column if (boxes[number][1] + boxes[number][3]) / 2 <= middle]
    if above:
        return max(above, key=lambda number: (boxes[number][3], number)) + 1
    below = column or [number for number, other in enumerate(boxes) if other[1] > middle]
    return min(below, default=len(boxes))


@dataclasses.dataclass(frozen=True)
class BlockTexts:
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
    def of(cls, blocks: Blocks, texts: dict[int, str], exact: frozenset[int] = frozenset()) -> BlockTexts:
        return cls(
            [_plain(block) for block in blocks.cut], texts, blocks.figures, blocks.inside, blocks.pictured, exact
        )

    def part(self, numbers: list[int], texts: dict[int, str]) -> BlockTexts:
        """Some of the blocks, with ``texts`` of theirs."""
        place = {number: at for at, number in enumerate(numbers)}
        return BlockTexts(
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
        blocks, spotted = assembled_blocks(given, self.texts, self.figures, self.pictured)
        pictures = {block.image["path"]: block for block in blocks if block.image is not None}
        for block, figures in ((blocks[number], self.figures[number]) for number in as_text):
            block.label, block.content = TABLE, untokenize_figure_of_table(block.content, figures, pictures)
        for number in self.exact & self.texts.keys():
            blocks[number].content = self.texts[number]
        return [block for number, block in enumerate(blocks) if number not in self.inside], spotted


def makes_table(otsl: str) -> bool:
    """Whether PaddleX makes HTML of a table's text, which ``assembled_blocks`` does; texts without marks count, too."""
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
