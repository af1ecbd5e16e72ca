# SPDX-License-Identifier: Apache-2.0
"""The VLM's answers for a page, taken out of PaddleX's pipeline before it reads them.

PaddleX turns answers into blocks in the process that has the layout model. Some of that takes the square of an
answer's length, in time or in memory: a table's markup of 100 KB becomes a grid of gigabytes. A printed page can make
the VLM write such markup. So ``AnswerTap`` keeps the answers back, and the same code of PaddleX reads them in a child
process with bounds (``worker/text_jobs``). It can go when PaddleX bounds that work itself.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from paddlex.inference.pipelines.paddleocr_vl import pipeline as paddlex_pipeline
from paddlex.inference.pipelines.paddleocr_vl.pipeline import _PaddleOCRVLPipeline
from paddlex.inference.pipelines.paddleocr_vl.uilts import convert_otsl_to_html

from tests.support.old_page.block_client import MARK, MARK_BEGINS

PLAIN = ("label", "box", "group_id", "polygon_points")
SPOTTING = "spotting"  # the only label for which the reading needs the size of the block's picture


def table_html(otsl: str) -> str:
    """PaddleX's HTML of a table in OTSL; nothing, which keeps the answer as it is, where the marks make no table.

    PaddleX 3.7.2 then looks for cells beyond the end of a row (``<fcel><xcel><nl><xcel>``), and the page is lost.
    """
    try:
        return convert_otsl_to_html(otsl)
    except IndexError:
        return ""


paddlex_pipeline.convert_otsl_to_html = table_html


@dataclasses.dataclass(frozen=True)
class Answers:
    """Plain data: of each block its fields of PLAIN and ``size`` (height, width); by the block's number its answer,
    and the places of figures in it; and PaddleX's lists of pictures."""

    blocks: list[dict[str, Any]]
    texts: dict[int, str]
    figures: dict[int, dict[str, str]]
    dropped: set[str]
    pictured: list[str]


class AnswerTap:
    """Stands in for the pipeline's ``_paddleocr_vl_assemble_parsing_results``, which is called for one page."""

    def __init__(self, assemble: Callable[..., Any]) -> None:
        self._assemble = assemble
        self._kept = threading.local()

    def take(self) -> Answers:
        """The answers of the page that this thread has parsed."""
        answers, self._kept.answers = self._kept.answers, None
        return answers

    def __call__(
        self, blocks: list[list[dict]], batches: dict, keys: dict, dropped: set[str], pictured: list[str]
    ) -> Any:
        assert len(blocks) == 1, "PagePipeline parses one page at a time"
        texts, figures = {}, {}
        for (page, number), key in keys.items():
            batch = batches[key]
            place = batch["vlm_block_ids"].index((page, number))
            result = batch["vlm_results"][place]
            text = result.get("result") or ""
            texts[number] = MARK.sub("", text)
            figures[number] = batch["figure_token_maps"][place]
            result["result"] = text[text.rfind(MARK_BEGINS) :]  # the last is ours, whatever the VLM has written
        plain = [plain_block(block) for block in blocks[0]]
        self._kept.answers = Answers(plain, texts, figures, set(dropped), list(pictured))
        return self._assemble(blocks, batches, keys, dropped, pictured)


def plain_block(block: dict[str, Any]) -> dict[str, Any]:
    """A block of PaddleX as Answers has it."""
    size = block["img"].shape[:2] if block["label"] == SPOTTING else (1, 1)
    return {field: block.get(field) for field in PLAIN} | {"size": size}


def read(answers: Answers) -> tuple[list[str], dict[str, Any]]:
    """The content of each block of the page, and PaddleX's ``spotting_res``."""
    blocks, spotting = assembled(answers)
    return [block.content for block in blocks], spotting


def assembled(answers: Answers) -> tuple[list[Any], dict[str, Any]]:
    """PaddleX's blocks with their texts, and its ``spotting_res``; their pictures are one pixel each."""
    blocks = [
        {**block, "img": np.broadcast_to(np.zeros((1, 1, 3), np.uint8), (*block["size"], 3))}
        for block in answers.blocks
    ]
    numbers = sorted(answers.texts)
    batch = {
        "vlm_block_ids": [(0, number) for number in numbers],
        "vlm_results": [{"result": answers.texts[number]} for number in numbers],
        "figure_token_maps": [answers.figures[number] for number in numbers],
        "images": [None] * len(numbers),
        "curr_vlm_block_idx": 0,
    }
    keys = {(0, number): "all" for number in numbers}
    parsed, _, spotting = _PaddleOCRVLPipeline._paddleocr_vl_assemble_parsing_results(
        None, [blocks], {"all": batch}, keys, answers.dropped, answers.pictured
    )
    return parsed[0], spotting[0]
