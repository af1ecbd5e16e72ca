# SPDX-License-Identifier: Apache-2.0
"""The options of a request as a worker needs them: keywords of the pipeline, and how a page is written."""

from __future__ import annotations

import dataclasses
from typing import Any

from docparser.contract.schemas import OutputOptions, ParseOptions, Places, RestructureRequest, TextLayer

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
    """How a parsed page is written out. ``places``: what is said where it stands; None: nothing."""

    prettify: bool
    formula_numbers: bool
    markdown_images: bool
    visualize: bool
    docx: bool
    places: Places | None = None


@dataclasses.dataclass(frozen=True)
class RestructureOptions:
    """Keywords of the pipeline's restructure_pages()."""

    merge_tables: bool
    relevel_titles: bool
    concatenate_pages: bool


@dataclasses.dataclass(frozen=True)
class PageOptions:
    """Options of one page. ``restructure`` is None unless the pages are joined when all are parsed. ``text_layer``:
    what its own text is for; None: as the service has it."""

    predict: dict[str, Any]
    answer: AnswerOptions
    restructure: RestructureOptions | None = None
    text_layer: TextLayer | None = None


def page_options(options: ParseOptions, *, visualize_by_default: bool) -> PageOptions:
    predict = {keyword: getattr(options, field) for field, keyword in PREDICT_KEYWORDS.items()}
    visualize = visualize_by_default if options.visualize is None else options.visualize
    restructure = restructure_options(options) if options.restructurePages else None
    return PageOptions(predict, answer_options(options, visualize=visualize), restructure, options.textLayer)


def answer_options(options: OutputOptions, *, visualize: bool) -> AnswerOptions:
    return AnswerOptions(
        prettify=options.prettifyMarkdown,
        formula_numbers=options.showFormulaNumber,
        markdown_images=options.returnMarkdownImages,
        visualize=visualize,
        docx="docx" in (options.outputFormats or ()),
        places=options.places if isinstance(options, ParseOptions) else None,
    )


def restructure_options(options: ParseOptions | RestructureRequest) -> RestructureOptions:
    return RestructureOptions(
        merge_tables=options.mergeTables,
        relevel_titles=options.relevelTitles,
        concatenate_pages=options.concatenatePages if isinstance(options, RestructureRequest) else False,
    )
