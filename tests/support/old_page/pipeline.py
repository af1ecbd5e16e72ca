# SPDX-License-Identifier: Apache-2.0
"""PaddleOCR's PaddleOCRVL, set up for this service. Imported in worker processes only: it loads Paddle."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from paddleocr import PaddleOCRVL

from docparser.errors import InternalError, InvalidRequest, NotReady
from docparser.settings import Settings
from docparser.vlm.client import Reply, VlmClient
from docparser.weights import find_layout_model, pipeline_file, served_model
from served_weights.catalog import Model
from tests.support.old_page.answers import SPOTTING, Answers, AnswerTap
from tests.support.old_page.block_client import MARK, BlockClient, PageCalls
from tests.support.old_page.certainty import Certainty
from tests.support.old_page.early_text import LayoutTap
from tests.support.old_page.frozen_page import freeze
from tests.support.old_page.layout_engine import (
    OPENVINO,
    PADDLE,
    Arrays,
    in_place_of_paddle,
    layout_server,
    openvino_runner,
)
from tests.support.old_page.layout_pixels import keep_bytes
from tests.support.old_page.page_reading import PageReading
from tests.support.old_page.shapes import BOXES_ONLY, with_boxes_at_least

log = logging.getLogger(__name__)

PREPROCESSING = {"use_doc_orientation_classify": "useDocOrientationClassify", "use_doc_unwarping": "useDocUnwarping"}


class PagePipeline:
    """A PageReader: one layout model and one client of the VLM."""

    def __init__(self, settings: Settings) -> None:
        """Raises NotReady if the layout model or the configuration cannot be loaded."""
        started = time.monotonic()
        self._warming_up = False
        # Paddle Inference keeps state per thread, and pages come from many: its models live in one thread.
        self._paddle = ThreadPoolExecutor(1, thread_name_prefix="paddle")
        self.client = BlockClient(VlmClient(settings), settings.vlm_model_name)
        self._doubtful_below = settings.doubtful_below if settings.confidence else None
        layout, model, file = find_layout_model(settings), served_model(settings), pipeline_file(settings)
        assert layout.path is not None, "found on this machine"
        engine = openvino_runner(settings, Path(layout.path))
        self.layout_engine = PADDLE if engine is None else OPENVINO
        self.layout_server = layout_server(settings, Path(layout.path))
        around = None if self.layout_server is None else self._ask_server
        try:
            with in_place_of_paddle(engine, Path(layout.path), around):
                self._pipeline = self._paddle.submit(
                    PaddleOCRVL,
                    paddlex_config=load_config(file, model),
                    layout_detection_model_name=layout.model,
                    layout_detection_model_dir=layout.path,
                    vl_rec_backend="vllm-server",
                    vl_rec_server_url=settings.vlm_url,
                    vl_rec_api_model_name=settings.vlm_model_name,
                    device="cpu",
                    cpu_threads=settings.cpu_threads,
                    enable_mkldnn=settings.mkldnn,
                ).result()
        except OSError as exc:
            raise NotReady(f"PARSER_PIPELINE_CONFIG: {file} cannot be read ({exc})") from exc
        except Exception as exc:  # Paddle raises any exception for a bad model file
            raise NotReady(f"The pipeline cannot be set up with the layout model in {layout.path}: {exc}") from exc
        self._inner = self._pipeline.paddlex_pipeline._pipeline
        self._layout_model, self._inner.layout_det_model = self._inner.layout_det_model, self._find_layout
        if not keep_bytes(self._layout_model):
            log.info("the layout model's picture is not plain bytes; PaddleX makes it of numbers")
        drop_overlaps = self._inner._paddleocr_vl_filter_overlap_boxes
        self._inner._paddleocr_vl_filter_overlap_boxes = lambda layout, shape_mode: with_boxes_at_least(
            lambda mode: drop_overlaps(layout, mode), shape_mode
        )
        if self._inner.use_doc_preprocessor:
            preprocess = self._inner.doc_preprocessor_pipeline
            self._inner.doc_preprocessor_pipeline = lambda *args, **kwargs: self._in_paddle(preprocess, *args, **kwargs)
        self._inner._paddleocr_vl_assemble_parsing_results = self._answers = AnswerTap(
            self._inner._paddleocr_vl_assemble_parsing_results
        )
        LayoutTap(self._inner, self.client)
        own_client, self._inner.vl_rec_model._genai_client = self._inner.vl_rec_model._genai_client, self.client
        own_client.close()
        log.info(
            "pipeline ready after %.1f s, layout model %s on %s",
            time.monotonic() - started,
            layout.path,
            self.layout_engine,
        )

    def close(self) -> None:
        self.client.close()
        self._paddle.shutdown(wait=False)

    def _in_paddle(self, model: Callable[..., Iterable[Any]], *args: Any, **kwargs: Any) -> list:
        return self._paddle.submit(lambda: list(model(*args, **kwargs))).result()

    def _find_layout(self, pages: list[np.ndarray], layout_shape_mode: str = BOXES_ONLY, **kwargs: Any) -> list:
        began = time.monotonic()
        # With a server the page's own thread waits for it, so that the next page can begin.
        run = (
            self._in_paddle
            if self.layout_server is None
            else (lambda model, *args, **kwargs: list(model(*args, **kwargs)))
        )
        found = with_boxes_at_least(
            lambda mode: run(self._layout_model, pages, layout_shape_mode=mode, **kwargs), layout_shape_mode
        )
        self.client.note_layout(time.monotonic() - began)
        return found

    def _ask_server(self, on_cpu: Callable[[Arrays], list[np.ndarray]], inputs: Arrays) -> list[np.ndarray]:
        """In the place of the engine on the CPU, which goes on where the server does not answer."""
        assert self.layout_server is not None
        found = None
        if not self._warming_up:
            with self.client.waiting():
                found = self.layout_server.find(inputs)
        return self._paddle.submit(on_cpu, inputs).result() if found is None else found

    def warm_up(self) -> None:
        """Run the layout model once on an empty page, because its first run is slower. On the CPU: it must be ready
        for the moment in which a server goes away."""
        white = np.full((1684, 1190, 3), 255, np.uint8)
        self._warming_up = True
        self._find_layout([white])
        self._warming_up = False

    def read(self, image: np.ndarray, predict: dict[str, Any], calls: PageCalls) -> PageReading:
        """The keywords are those of PaddleX's predict()."""
        for keyword, field in PREPROCESSING.items():
            if predict.get(keyword) and not self._inner.use_doc_preprocessor:
                raise InvalidRequest(f"{field}: this service has no model for it; send false or leave it out")
        with self.client.page(calls):
            results = list(self._pipeline.predict(image, **predict))
        if len(results) != 1:
            raise InternalError(f"the pipeline gave {len(results)} results for one page")
        result, answers = results[0], self._answers.take()
        block_of = _take_marks(result)
        if self._doubtful_below is not None:
            _tell_certainties(result, calls.told, block_of, self._doubtful_below)
        notes = [
            {"block_id": block_of.get(number), "kind": reply.note.kind, "message": reply.note.message}
            for number, reply in enumerate(calls.told)
            if reply.note is not None
        ]
        return PageReading(freeze(result, answers), notes, lambda: result.img, _spotted_on(result, answers))


def load_config(file: Path, model: Model) -> dict[str, Any]:
    """The pipeline's configuration, with PaddleX's names for the model's version. Raises OSError, yaml.YAMLError."""
    config = yaml.safe_load(file.read_text(encoding="utf-8"))
    if name := model.signs.model_name:
        config["SubModules"]["VLRecognition"]["model_name"] = name
        config["pipeline_name"] = name.removesuffix("-0.9B")
    return config


def _spotted_on(result: Any, answers: Answers) -> np.ndarray | None:
    if not any(block["label"] == SPOTTING for block in answers.blocks):
        return None
    return (result["doc_preprocessor_res"] or {}).get("output_img")


def _take_marks(result: Any) -> dict[int, int]:
    """Remove the marks from the blocks' texts; returns the block of each mark's number."""
    block_of = {}
    for block_id, block in enumerate(result["parsing_res_list"]):
        for mark in MARK.finditer(block.content or ""):
            block_of[int(mark.group(1))] = block_id
        block.content = MARK.sub("", block.content or "")
    return block_of


def _tell_certainties(result: Any, told: list[Reply], block_of: dict[int, int], doubtful_below: float) -> None:
    """Give each block its ``certainty``."""
    blocks = result["parsing_res_list"]
    for block in blocks:
        block.certainty = Certainty()
    for number, block_id in block_of.items():
        blocks[block_id].certainty = Certainty.of(told[number], doubtful_below)
