# SPDX-License-Identifier: Apache-2.0
"""One page, from its picture to its blocks with their texts.

    picture -> upright -> layout -> blocks -> crops and prompts -> requests -> replies by block -> the page

What a PDF's page says itself may be the text of blocks, or repair it (``page.own_text_step``).

``PageLoop.read`` has these steps in this order. PaddleX does what its pipeline would do in each, by the functions of
``paddlex_private``; how steps follow each other, and all calls of the VLM, are ours (docs/decisions/0229). What the
replies come to (tables as HTML, formulas, spotted texts) is put together in a child process: ``page.answers``.
"""

from __future__ import annotations

import functools
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import paddlex
from pydantic.alias_generators import to_camel

from docparser import traces
from docparser.contract.answers import Note, NotedBlock
from docparser.contract.schemas import ParseOptions
from docparser.errors import NotReady
from docparser.page.answers import Answers
from docparser.page.blocks import TABLE, Blocks, apart, blocks_of
from docparser.page.early_text import FORMULAS
from docparser.page.frozen import Known, freeze, frozen_blocks
from docparser.page.ground import Ground, ground_of
from docparser.page.layout_model import LayoutModel, paddle_config
from docparser.page.notes import page_notes
from docparser.page.own_text_step import OwnTextStep
from docparser.page.paddlex_private import LayoutAnalysisResult, PaddleOCRVLResult, gather_imgs
from docparser.page.provenance import Certainty, Provenance
from docparser.page.question import Sampling, VlmCalls
from docparser.page.run import PageReading, PageRun, Picture, Replies
from docparser.page.table_heads import head_rows
from docparser.settings import Settings
from docparser.vlm.client import Reply, VlmClient
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

    def close(self) -> None:
        self.vlm.close()
        self._paddle.shutdown(wait=False)

    def warm_up(self) -> None:
        self.layout.warm_up()

    def read(self, page: np.ndarray, options: ParseOptions, run: PageRun) -> PageReading:
        settings = self._settings(options)
        upright, turned = self._upright(page, settings, options)
        layout = self._find_layout(upright, settings, options, run)
        figures = gather_imgs(upright, layout["boxes"]) if settings["use_layout_detection"] else []
        found_boxes = apart(layout["boxes"])
        own = OwnTextStep(
            run.own_text if upright is page else None,  # a page that was turned has other places
            run.text_layer,
            found_boxes,
            layout_found=settings["use_layout_detection"],
            own_table=run.reading.own_table,
        )
        boxes = run.reading.label(own.layout(), len(upright))
        blocks = blocks_of(upright, {"boxes": boxes}, figures, settings, options, own.further())
        given = own.given(blocks)
        if run.listener is not None:
            run.listener.laid_out(blocks, own.exact(blocks, given), settings, upright.shape[1])
        replies = self._ask(blocks, given, own, options, run)
        found = {
            "width": upright.shape[1],
            "height": upright.shape[0],
            "page_count": None,
            "model_settings": settings,
            "layout_det_res": layout,
            "doc_preprocessor_res": turned,
        }
        texts = {number: reply.text for number, reply in replies.items()}
        answers = Answers.of(blocks, texts, own.exact(blocks, given))
        known = self._known(upright, blocks, replies, own, run)
        return PageReading(
            frozen=freeze(found, figures, frozen_blocks(blocks, known), answers),
            block_notes=_block_notes(blocks, replies),
            page_notes=[
                *_page_notes(upright, found_boxes, blocks, replies, cut=settings["use_layout_detection"]),
                *own.notes(),
            ],
            drawn=functools.partial(_drawn, found),
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

    def _ask(
        self, blocks: Blocks, given: Replies, own: OwnTextStep, options: ParseOptions, run: PageRun
    ) -> dict[int, Reply]:
        """The replies by the numbers of the blocks: the VLM's, but for those that are ``given``."""
        sampling = Sampling.of(options, spotting=blocks.spotting)
        calls = {}
        try:
            for number, question in blocks.questions.items():
                if number in given:
                    continue
                run.check()
                read = functools.partial(run.reading.block, question, sampling)
                calls[number] = run.calling(self.vlm.start(f"{run.request_id}-b{number}", read))
            return run.replies(calls, given, functools.partial(own.settled, blocks))
        finally:
            run.end_calls()

    def _known(
        self, page: np.ndarray, blocks: Blocks, replies: Replies, own: OwnTextStep, run: PageRun
    ) -> dict[int, Known]:
        """Of all blocks."""
        below, origins, heads = self._doubtful_below, own.origins(blocks), _heads(blocks, replies)
        grounds = _grounds(page, blocks, own, run) if run.places else {}
        return {
            number: Known(
                Provenance(
                    None
                    if below is None
                    else Certainty.of(replies[number], below)
                    if number in replies
                    else Certainty(),
                    origins.get(number),
                ),
                heads.get(number, 0),
                grounds.get(number),
            )
            for number in range(len(blocks.cut))
        }

    def _load_preprocessor(self, settings: Settings) -> Any:
        """PaddleX's pipeline that turns and flattens pages. Raises NotReady."""
        engine = {"paddle_static": paddle_config(settings)}
        try:
            config = self._config["SubPipelines"]["DocPreprocessor"]
            create = functools.partial(paddlex.create_pipeline, config=config, device="cpu", engine_config=engine)
            return self._paddle.submit(create).result()
        except Exception as exc:  # Paddle raises any exception for a bad model file
            raise NotReady(f"SubPipelines.DocPreprocessor of the pipeline cannot be set up: {exc}") from exc


def _heads(blocks: Blocks, replies: Replies) -> dict[int, int]:
    """How many rows of each table are its head, where there are some."""
    tables = {number: reply.text for number, reply in replies.items() if blocks.cut[number]["label"] == TABLE}
    found = {number: head_rows(blocks.cut[number]["img"], text) for number, text in tables.items()}
    return {number: rows for number, rows in found.items() if rows}


def _grounds(page: np.ndarray, blocks: Blocks, own: OwnTextStep, run: PageRun) -> dict[int, Ground]:
    """What the places of lines, words and cells are found by."""
    return ground_of(page, blocks, own.true_lines, cells_only=run.places == "cells")


def _block_notes(blocks: Blocks, replies: Replies) -> list[NotedBlock]:
    """What is wrong with texts; ``block_id`` is None for one inside a table."""
    place = {number: at for at, number in enumerate(blocks.shown)}
    return [
        {"block_id": place.get(number), "kind": reply.note.kind, "message": reply.note.message}
        for number, reply in replies.items()
        if reply.note is not None
    ]


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
