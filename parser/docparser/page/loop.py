# SPDX-License-Identifier: Apache-2.0
"""One page, from its picture to its blocks with their texts.

    picture -> upright -> layout -> blocks -> crops and prompts -> requests -> replies by block -> the page

What a PDF's page says itself may be the text of blocks, or repair it (``page.own_text_step``).

``PageLoop.read`` has these steps in this order. PaddleX does what its pipeline would do in each, by the functions of
``paddlex_private``; how steps follow each other, and all calls of the VLM, are ours (docs/decisions/0229). What the
replies come to (tables as HTML, formulas, spotted texts) is put together in a child process: ``page.blocks``.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import paddlex
from pydantic.alias_generators import to_camel

from docparser import traces
from docparser.contract.answers import Note, NotedBlock
from docparser.contract.schemas import ParseOptions
from docparser.errors import NotReady
from docparser.page import own_text_step
from docparser.page.alignment import Alignment
from docparser.page.blocks import FORMULAS, TABLE, Blocks, BlockTexts, apart, page_blocks
from docparser.page.frozen import Known, freeze, frozen_blocks
from docparser.page.layout_model import LayoutModel, paddle_config
from docparser.page.notes import page_notes
from docparser.page.own_text_step import Taken, settle
from docparser.page.paddlex_private import LayoutAnalysisResult, PaddleOCRVLResult, gather_imgs
from docparser.page.places import Ground, ground_of
from docparser.page.provenance import Certainty, Origin, Provenance
from docparser.page.question import Sampling, VlmCalls
from docparser.page.run import PageReading, PageRun, PageTask, Picture, Replied, Replies, Settled
from docparser.page.table_heads import head_rows
from docparser.settings import Settings
from docparser.vlm.client import VlmClient
from docparser.weights import has_preprocessor, load_pipeline, pipeline_file

log = logging.getLogger(__name__)

NOT_IN_MARKDOWN = ["number", "footnote", "header", "header_image", "footer", "footer_image", "aside_text"]
# What a request may choose, in the order of `model_settings` and by its names, and what counts if the pipeline's file
# says nothing.
CHOSEN: dict[str, Any] = {
    "use_layout_detection": True,
    "use_chart_recognition": False,
    "use_seal_recognition": False,
    "use_ocr_for_image_block": False,
    "format_block_content": False,
    "merge_layout_blocks": True,
    "markdown_ignore_labels": NOT_IN_MARKDOWN,
}


class PageLoop:
    """A PageReader: the layout model, and the VLM for each block."""

    def __init__(self, settings: Settings) -> None:
        """Raises NotReady if the layout model or the configuration cannot be loaded."""
        began = time.monotonic()
        self._config = load_pipeline(pipeline_file(settings))
        # Paddle Inference keeps state per thread, and pages come from many: its models live in one thread.
        self._paddle = ThreadPoolExecutor(1, thread_name_prefix="paddle")
        self.layout = LayoutModel(settings, self._config, self._paddle)
        self.layout_engine, self.layout_server = self.layout.engine, self.layout.server
        self._preprocessor = self._load_preprocessor(settings) if has_preprocessor(self._config) else None
        self._doubtful_below = settings.doubtful_below if settings.confidence else None
        self.vlm = VlmCalls(VlmClient(settings), settings.vlm_model_name)
        log.info("pages can be read after %.1f s; %s finds layouts", time.monotonic() - began, self.layout_engine)

    def warm_up(self) -> None:
        self.layout.warm_up()

    def read(self, task: PageTask, run: PageRun) -> PageReading:
        options, mode = task.options, task.options.textLayer
        settings = self._settings(options)
        upright, turned = self._upright(task.picture, settings, options)
        own = task.own_text if upright is task.picture else None  # a page that was turned has other places

        began = time.monotonic()
        layout = self._find_layout(upright, settings, options, run)
        layout_s = time.monotonic() - began
        found = {
            "width": upright.shape[1],
            "height": upright.shape[0],
            "page_count": None,
            "model_settings": settings,
            "layout_det_res": layout,
            "doc_preprocessor_res": turned,
        }
        figures = gather_imgs(upright, layout["boxes"]) if settings["use_layout_detection"] else []

        boxes = apart(layout["boxes"])
        grown = own_text_step.grown(own, mode, boxes)
        labelled = task.reading.label(grown.boxes, len(upright))
        cut = page_blocks(upright, labelled, figures, settings, options, grown.further)
        taken = own_text_step.taken(own, mode, cut, boxes, task.reading.own_table)
        blocks = taken.blocks
        if run.listener is not None:
            run.listener.laid_out(blocks, taken.exact, settings, upright.shape[1])

        replied = self._ask(taken, task, run)
        replies = replied.replies
        texts = BlockTexts.of(blocks, {number: reply.text for number, reply in replies.items()}, taken.exact)
        known = self._known(upright, taken, replied.settled, options)
        places = {number: at for at, number in enumerate(blocks.shown)}
        return PageReading(
            frozen=freeze(found, figures, frozen_blocks(blocks, known), texts),
            block_notes=_block_notes(places, replies),
            page_notes=[
                *_page_notes(upright, boxes, blocks, replies, cut=settings["use_layout_detection"]),
                *own_text_step.notes(own, _differences(places, replied.settled), grown.unread),
            ],
            drawn=functools.partial(_drawn, found),
            answered=replied.answered,
            tokens=replied.tokens,
            waited_s=replied.waited_s,
            layout_s=layout_s,
            spotted_on=upright if blocks.spotting else None,
        )

    def _settings(self, options: ParseOptions) -> dict[str, Any]:
        """``model_settings`` of the page."""
        asked = [options.useDocOrientationClassify, options.useDocUnwarping]
        settings: dict[str, Any] = {
            "use_doc_preprocessor": any(asked) if asked != [None, None] else self._preprocessor is not None
        }
        for name, usual in CHOSEN.items():
            asked_for = getattr(options, to_camel(name))
            settings[name] = self._config.get(name, usual) if asked_for is None else asked_for
        settings["return_layout_polygon_points"] = options.shape_mode != "rect"
        if not settings["use_layout_detection"] and options.promptLabel in ("chart", "seal"):
            settings[f"use_{options.promptLabel}_recognition"] = True
        return settings

    def _upright(self, page: np.ndarray, settings: dict[str, Any], options: ParseOptions) -> tuple[np.ndarray, Any]:
        """The page turned and flattened, where there are models for it; and what PaddleX says of that."""
        if not settings["use_doc_preprocessor"]:
            return page, None
        assert self._preprocessor is not None, "parsing.service refuses requests for a model that is not there"
        preprocess = functools.partial(
            self._preprocessor,
            [page],
            use_doc_orientation_classify=options.useDocOrientationClassify,
            use_doc_unwarping=options.useDocUnwarping,
        )
        (found,) = self._paddle.submit(lambda: list(preprocess())).result()
        return found["output_img"], found

    def _find_layout(
        self, page: np.ndarray, settings: dict[str, Any], options: ParseOptions, run: PageRun
    ) -> LayoutAnalysisResult | dict[str, Any]:
        """The page's boxes in reading order; without layout detection one, the page."""
        if settings["use_layout_detection"]:
            with traces.span("layout"):
                return self.layout.find(page, options, run)
        height, width = page.shape[:2]
        box = {"cls_id": 0, "label": options.promptLabel or "ocr", "score": 1, "coordinate": [0, 0, width, height]}
        return {"boxes": [box]}

    def _ask(self, taken: Taken, task: PageTask, run: PageRun) -> Replied:
        """The VLM's replies to the blocks that are not given, as they count; and these."""
        questions, mode = taken.blocks.questions, task.options.textLayer
        sampling = Sampling.of(task.options, spotting=taken.blocks.spotting)
        calls = {}
        try:
            for number, question in questions.items():
                if number in taken.given:
                    continue
                run.check()
                read = functools.partial(task.reading.block, question, sampling)
                calls[number] = run.calling(self.vlm.start(f"{task.request_id}-b{number}", read))
            return run.replies(
                calls,
                taken.given,
                lambda number, reply: settle(reply, taken.said.get(number), questions[number].prompt, mode),
            )
        finally:
            run.end_calls()

    def _known(
        self, page: np.ndarray, taken: Taken, settled: Mapping[int, Settled], options: ParseOptions
    ) -> dict[int, Known]:
        """Of the blocks that are shown."""
        blocks, grounds = taken.blocks, dict[int, Ground]()
        if options.places:
            grounds = ground_of(page, blocks, taken.true_lines, cells_only=options.places == "cells")
        return {
            number: Known(
                self._provenance(settled.get(number), taken.textless),
                _head_rows(blocks.cut[number], settled.get(number)),
                grounds.get(number),
            )
            for number in blocks.shown
        }

    def _provenance(self, settled: Settled | None, textless: Origin | None) -> Provenance:
        """Of a block; ``textless``: the origin of one without a reply."""
        certainty: Certainty | None = None
        if self._doubtful_below is not None:
            certainty = Certainty.of(settled.reply, self._doubtful_below) if settled else Certainty()
        return Provenance(certainty, settled.origin if settled else textless)

    def _load_preprocessor(self, settings: Settings) -> Any:
        """PaddleX's pipeline that turns and flattens pages. Raises NotReady."""
        engine = {"paddle_static": paddle_config(settings)}
        try:
            config = self._config["SubPipelines"]["DocPreprocessor"]
            create = functools.partial(paddlex.create_pipeline, config=config, device="cpu", engine_config=engine)
            return self._paddle.submit(create).result()
        except Exception as exc:  # Paddle raises any exception for a bad model file
            raise NotReady(f"SubPipelines.DocPreprocessor of the pipeline cannot be set up: {exc}") from exc


def _head_rows(block: dict[str, Any], settled: Settled | None) -> int:
    """How many rows of a table are its head."""
    return head_rows(block["img"], settled.reply.text) if settled and block["label"] == TABLE else 0


def _block_notes(places: Mapping[int, int], replies: Replies) -> list[NotedBlock]:
    """What is wrong with texts. ``places``: of blocks in the answer; one inside a table has none."""
    return [
        {"block_id": places.get(number), "kind": reply.note.kind, "message": reply.note.message}
        for number, reply in replies.items()
        if reply.note is not None
    ]


def _differences(places: Mapping[int, int], settled: Mapping[int, Settled]) -> list[tuple[int | None, Alignment]]:
    return [(places.get(number), one.difference) for number, one in settled.items() if one.difference is not None]


def _page_notes(
    page: np.ndarray, found: list[dict[str, Any]], blocks: Blocks, replies: Replies, *, cut: bool
) -> list[Note]:
    """``found``: boxes of the layout. ``cut``: a long page was, for the layout model; one that is wide was not."""
    texts = [reply.text for number, reply in replies.items() if blocks.cut[number]["label"] not in FORMULAS]
    squeezed = not cut or page.shape[1] > page.shape[0]
    boxes = [box["coordinate"] for box in found] + [blocks.cut[number]["box"] for number in blocks.further]
    return page_notes(page, boxes, texts, squeezed=squeezed)


def _drawn(found: dict[str, Any]) -> dict[str, Picture]:
    """The page with what was found on it."""
    return PaddleOCRVLResult({"input_path": None, "page_index": None, **found, "spotting_res": {}}).img
