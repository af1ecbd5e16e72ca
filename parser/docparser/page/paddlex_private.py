# SPDX-License-Identifier: Apache-2.0
"""What a page calls inside PaddleX. Nothing of it is replaced, and no other module reaches behind its public API.

PaddleX 3.7.2 offers its PaddleOCR-VL pipeline as one call, ``predict``, and none of its steps. These are its steps, as
checked against CHECKED; ``tests/parser/page/test_paddlex_private.py`` holds their signatures and what they give for one
page, and fails when the package changes. What is imported ``as`` its own name is for other modules.

Loads PaddleX, and no Paddle.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import cv2
import numpy as np
from paddlex.inference.common.result import BaseResult as BaseResult
from paddlex.inference.common.result.converter.markdown_converter import MarkdownConverter
from paddlex.inference.models import create_predictor as create_predictor
from paddlex.inference.models.layout_analysis.predictor import LayoutAnalysisRunnerPredictor
from paddlex.inference.models.layout_analysis.result import LayoutAnalysisResult as LayoutAnalysisResult
from paddlex.inference.models.object_detection.processors import Normalize, ToBatch, ToCHWImage
from paddlex.inference.pipelines.components import CropByBoxes
from paddlex.inference.pipelines.layout_parsing.utils import construct_img_path as construct_img_path
from paddlex.inference.pipelines.layout_parsing.utils import gather_imgs as gather_imgs
from paddlex.inference.pipelines.paddleocr_vl.pipeline import IMAGE_LABELS as IMAGE_LABELS
from paddlex.inference.pipelines.paddleocr_vl.pipeline import _PaddleOCRVLPipeline
from paddlex.inference.pipelines.paddleocr_vl.result import PaddleOCRVLBlock, PaddleOCRVLResult
from paddlex.inference.pipelines.paddleocr_vl.uilts import convert_otsl_to_html as convert_otsl_to_html
from paddlex.inference.pipelines.paddleocr_vl.uilts import filter_overlap_boxes as filter_overlap_boxes
from paddlex.inference.pipelines.paddleocr_vl.uilts import merge_blocks
from paddlex.inference.pipelines.paddleocr_vl.uilts import untokenize_figure_of_table as untokenize_figure_of_table
from shapely.errors import ShapelyError  # type: ignore[import-untyped]  # it comes without types

from docparser.formula_signs import formulas_in
from layout_wire import STEP

log = logging.getLogger(__name__)

CHECKED = "3.7.2"
BOXES_ONLY = "rect"  # of the shapes of blocks
T = TypeVar("T")
# Unicode's noncharacters, which no text has: printed dollars and backslashes while PaddleX looks for formulas.
DOLLAR, BACKSLASH = "\ufdd0", "\ufdd1"
BRACKETS = re.compile(r"\\\([^\n]{1,500}?\\\)|\\\[[^\n]{1,500}?\\\]")

# PaddleX's pipeline as its own constructor makes it without models: some of its steps are methods that use none.
_PIPELINE = _PaddleOCRVLPipeline({}, initial_predictor=False)
_CROP = CropByBoxes()


class BytesToBatch(ToBatch):
    """PaddleX's last step, whose picture is uint8 ``[pages, 3, height, width]``."""

    def apply(self, datas: list[dict], key: str, *args: Any, **kwargs: Any) -> np.ndarray:
        if key != "img":
            return super().apply(datas, key, *args, **kwargs)
        return np.stack([np.stack(cv2.split(data["img"])) for data in datas])


def in_bytes(steps: list[Any]) -> list[Any] | None:
    """The steps that PaddleX's layout model takes before its engine, for a picture that stays bytes; None where it is
    not made by a plain division by 255."""
    *before, normalize, planes, batch = steps
    plain = (
        isinstance(normalize, Normalize)
        and isinstance(planes, ToCHWImage)
        and type(batch) is ToBatch
        and [np.float32(factor) for factor in normalize.alpha] == [STEP] * 3
        and not any(normalize.beta)
    )
    return [*before, BytesToBatch(batch.ordered_required_keys)] if plain else None


def boxes_in(
    model: LayoutAnalysisRunnerPredictor, found: Sequence[np.ndarray], read: list[dict], **options: Any
) -> list[dict]:
    """The boxes of one page. ``found``: the layout model's results; ``read``: what the model's ``pre_ops`` made of the
    page. ``options`` of the request come before the model's own; None: as the model has it."""
    (boxes,) = model.post_op(
        model._format_output(found),
        read,
        threshold=model.threshold if options["threshold"] is None else options["threshold"],
        layout_nms=options["layout_nms"] or model.layout_nms,
        layout_unclip_ratio=options["layout_unclip_ratio"] or model.layout_unclip_ratio,
        layout_merge_bboxes_mode=options["layout_merge_bboxes_mode"] or model.layout_merge_bboxes_mode,
        layout_shape_mode=options["layout_shape_mode"],
        filter_overlap_boxes=False,
    )
    return boxes


def labels_of(model: LayoutAnalysisRunnerPredictor) -> list[str]:
    """The labels of the model's boxes, by their class numbers."""
    return list(model.post_op.labels)


def cut_blocks(picture: np.ndarray, boxes: list[dict], shape_mode: str) -> list[dict]:
    """The blocks of a page, with their pictures; uint8 ``[height, width, 3]``, blue first, as ``picture``."""
    return _CROP(picture, boxes, shape_mode)


def merged_blocks(blocks: list[dict], pictures: list[str]) -> list[dict]:
    """Texts that go on in the next column are one block. ``pictures``: the labels that the VLM does not read."""
    return merge_blocks(blocks, non_merge_labels=[*pictures, "table"])


def crops_and_prompts(
    blocks: list[dict], figures: list[dict], options: dict[str, Any]
) -> tuple[list[tuple], bool, set[str]]:
    """What the VLM is asked: ``(0, block's number, crop, prompt, (least, most pixels), {token: path of a figure})``;
    whether texts are spotted; and the paths of the figures that stand in tables."""
    return _PIPELINE._paddleocr_vl_collect_page_vlm_entries_core(0, blocks, figures, options)


def assembled_blocks(
    blocks: list[dict], texts: dict[int, str], figures: dict[int, dict[str, str]], pictured: list[str]
) -> tuple[list[PaddleOCRVLBlock], dict[str, Any]]:
    """The blocks in order with what the VLM's ``texts`` come to, by their numbers; and the texts that were spotted."""
    numbers = sorted(texts)
    asked = {
        "vlm_block_ids": [(0, number) for number in numbers],
        "vlm_results": [{"result": _hidden(texts[number])} for number in numbers],
        "figure_token_maps": [figures[number] for number in numbers],
        "images": [None] * len(numbers),
        "curr_vlm_block_idx": 0,
    }
    keys = {(0, number): "all" for number in numbers}
    (parsed,), _, (spotted,) = _PIPELINE._paddleocr_vl_assemble_parsing_results(
        [blocks], {"all": asked}, keys, set(), pictured
    )
    for block in parsed:
        block.content = _shown(block.content)
    if "rec_texts" in spotted:
        spotted["rec_texts"] = list(map(_shown, spotted["rec_texts"]))
    return parsed, spotted


def _hidden(text: str) -> str:
    """``text`` with printed signs hidden: beside one ``\\(...\\)`` PaddleX takes every dollar away, prices' too, and it
    takes the groups of regular expressions for formulas."""
    text, pieces, at = text.replace("$", DOLLAR), [], 0
    for formula in formulas_in(text):
        pieces += [_without_brackets(text[at : formula.start]), _shown(text[formula.start : formula.end])]
        at = formula.end
    return "".join([*pieces, _without_brackets(text[at:])])


def _without_brackets(text: str) -> str:
    return BRACKETS.sub(lambda found: found[0].replace("\\", BACKSLASH), text)


def _shown(text: str) -> str:
    return text.replace(DOLLAR, "$").replace(BACKSLASH, "\\")


def restructured_pages(pages: list, **options: bool) -> list[PaddleOCRVLResult]:
    """The pages of a document joined: ``merge_tables``, ``relevel_titles``, ``concatenate_pages``."""
    return list(_PIPELINE.restructure_pages(pages, **options))


def markdown_of(page: PaddleOCRVLResult, *, pretty: bool, formula_numbers: bool) -> dict[str, Any]:
    """``markdown_texts`` and ``markdown_images`` of a page."""
    return page._to_markdown(pretty=pretty, show_formula_number=formula_numbers)


def markdown_of_blocks(
    page: PaddleOCRVLResult,
    blocks: Iterable[PaddleOCRVLBlock],
    further: dict[str, Any],
    *,
    pretty: bool,
    formula_numbers: bool,
) -> str:
    """The Markdown of some blocks as ``page`` would write it; ``further``: how blocks with other labels are written."""
    handlers = page._build_handle_funcs_dict(pretty=pretty) | further
    written = MarkdownConverter.convert(list(blocks), handle_funcs_dict=handlers, show_formula_number=formula_numbers)
    return written["markdown_texts"]


def with_boxes_at_least(work: Callable[[str], T], shape_mode: str) -> T:
    """``work(shape_mode)``, PaddleX's work with outlines of blocks; with the boxes alone where an outline cannot be
    computed with.

    PP-DocLayoutV3's masks become outlines, and PaddleX divides by their areas (``calculate_polygon_overlap_ratio``). A
    mask that is a line, there and back, has none, and one such block would cost the page.
    """
    try:
        return work(shape_mode)
    except (ZeroDivisionError, ShapelyError) as exc:
        if shape_mode == BOXES_ONLY:
            raise
        log.warning("the blocks of a page are cut out as boxes: an outline has no area (%s)", exc)
        return work(BOXES_ONLY)
