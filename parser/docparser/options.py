# SPDX-License-Identifier: Apache-2.0
"""What a worker must know to parse one page: the request without the document, as the pipeline calls it."""

from __future__ import annotations

import dataclasses
from typing import Any

from docparser.schemas import ParseRequest, RestructureRequest

# request field -> keyword of the pipeline's predict()
PREDICT_KEYWORDS = {
    "useDocOrientationClassify": "use_doc_orientation_classify",
    "useDocUnwarping": "use_doc_unwarping",
    "useLayoutDetection": "use_layout_detection",
    "useChartRecognition": "use_chart_recognition",
    "useSealRecognition": "use_seal_recognition",
    "useOcrForImageBlock": "use_ocr_for_image_block",
    "layoutThreshold": "layout_threshold",
    "layoutNms": "layout_nms",
    "layoutUnclipRatio": "layout_unclip_ratio",
    "layoutMergeBboxesMode": "layout_merge_bboxes_mode",
    "layoutShapeMode": "layout_shape_mode",
    "promptLabel": "prompt_label",
    "formatBlockContent": "format_block_content",
    "repetitionPenalty": "repetition_penalty",
    "temperature": "temperature",
    "topP": "top_p",
    "minPixels": "min_pixels",
    "maxPixels": "max_pixels",
    "maxNewTokens": "max_new_tokens",
    "mergeLayoutBlocks": "merge_layout_blocks",
    "markdownIgnoreLabels": "markdown_ignore_labels",
    "vlmExtraArgs": "vlm_extra_args",
}


@dataclasses.dataclass(frozen=True)
class AnswerOptions:
    """How a parsed page is written out."""

    prettify: bool
    formula_numbers: bool
    markdown_images: bool
    visualize: bool
    docx: bool


@dataclasses.dataclass(frozen=True)
class RestructureOptions:
    """Keywords of the pipeline's restructure_pages()."""

    merge_tables: bool
    relevel_titles: bool
    concatenate_pages: bool


@dataclasses.dataclass(frozen=True)
class PageOptions:
    """``restructure`` is None unless the pages are to be joined when all are parsed."""

    predict: dict[str, Any]
    answer: AnswerOptions
    restructure: RestructureOptions | None = None


def page_options(request: ParseRequest, *, visualize_by_default: bool) -> PageOptions:
    predict = {keyword: getattr(request, field) for field, keyword in PREDICT_KEYWORDS.items()}
    visualize = visualize_by_default if request.visualize is None else request.visualize
    restructure = restructure_options(request) if request.restructurePages else None
    return PageOptions(predict, answer_options(request, visualize=visualize), restructure)


def answer_options(request: ParseRequest | RestructureRequest, *, visualize: bool) -> AnswerOptions:
    return AnswerOptions(
        prettify=request.prettifyMarkdown,
        formula_numbers=request.showFormulaNumber,
        markdown_images=request.returnMarkdownImages,
        visualize=visualize,
        docx="docx" in (request.outputFormats or ()),
    )


def restructure_options(request: ParseRequest | RestructureRequest) -> RestructureOptions:
    return RestructureOptions(
        merge_tables=request.mergeTables,
        relevel_titles=request.relevelTitles,
        concatenate_pages=getattr(request, "concatenatePages", False),
    )
