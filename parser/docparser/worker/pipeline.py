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
from docparser.vlm.client import VlmClient
from docparser.vlm.failures import BlockNote
from docparser.weights import find_layout_model, pipeline_file, served_model
from docparser.worker.answers import Answers, AnswerTap
from docparser.worker.block_client import NOTE_MARK, BlockClient, PageCalls
from docparser.worker.layout_engine import OPENVINO, PADDLE, Arrays, in_place_of_paddle, layout_server, openvino_runner
from docparser.worker.shapes import BOXES_ONLY, with_boxes_at_least
from served_weights.catalog import Model

log = logging.getLogger(__name__)

PREPROCESSING = {"use_doc_orientation_classify": "useDocOrientationClassify", "use_doc_unwarping": "useDocUnwarping"}


class PagePipeline:
    """One layout model and one client of the VLM. The caller of a method must hold the worker's baton."""

    def __init__(self, settings: Settings) -> None:
        """Raises NotReady if the layout model or the configuration cannot be loaded."""
        started = time.monotonic()
        self._warming_up = False
        # Paddle Inference keeps state per thread, and pages come from many: its models live in one thread.
        self._paddle = ThreadPoolExecutor(1, thread_name_prefix="paddle")
        self.client = BlockClient(VlmClient(settings), settings.vlm_model_name)
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

    def parse(self, image: np.ndarray, predict: dict[str, Any], calls: PageCalls) -> tuple[Any, Answers, list[dict]]:
        """One page, uint8 ``[height, width, 3]``, blue first, with predict()'s keywords. Gives the baton away while the
        VLM reads.

        Returns paddlex's PaddleOCRVLResult, whose blocks have no text yet; the VLM's answers for them; and the notes of
        its blocks as ``{block_id, kind, message}``. Raises InvalidRequest, VlmUnavailable, Cancelled.
        """
        for keyword, field in PREPROCESSING.items():
            if predict.get(keyword) and not self._inner.use_doc_preprocessor:
                raise InvalidRequest(f"{field}: this service has no model for it; send false or leave it out")
        with self.client.page(calls):
            results = list(self._pipeline.predict(image, **predict))
        if len(results) != 1:
            raise InternalError(f"the pipeline gave {len(results)} results for one page")
        return results[0], self._answers.take(), _take_marks(results[0], calls.notes)


def load_config(file: Path, model: Model) -> dict[str, Any]:
    """The pipeline's configuration, with PaddleX's names for the model's version. Raises OSError, yaml.YAMLError."""
    config = yaml.safe_load(file.read_text(encoding="utf-8"))
    if name := model.signs.model_name:
        config["SubModules"]["VLRecognition"]["model_name"] = name
        config["pipeline_name"] = name.removesuffix("-0.9B")
    return config


def _take_marks(result: Any, notes: list[BlockNote]) -> list[dict]:
    """Remove the marks from the blocks' texts; returns the notes with the block that each belongs to."""
    block_of = {}
    if notes:
        for block_id, block in enumerate(result["parsing_res_list"]):
            for mark in NOTE_MARK.finditer(block.content or ""):
                block_of[int(mark.group(1))] = block_id
            block.content = NOTE_MARK.sub("", block.content or "")
    return [
        {"block_id": block_of.get(number), "kind": note.kind, "message": note.message}
        for number, note in enumerate(notes)
    ]
