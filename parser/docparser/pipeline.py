# SPDX-License-Identifier: Apache-2.0
"""PaddleOCR's PaddleOCRVL, set up for this service. Imported in worker processes only: it loads Paddle."""

from __future__ import annotations

import logging
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import yaml
from paddleocr import PaddleOCRVL

from docparser.block_client import NOTE_MARK, BlockClient, PageCalls
from docparser.errors import InternalError, InvalidRequest, NotReady
from docparser.options import RestructureOptions
from docparser.settings import Settings
from docparser.vlm_client import BlockNote, VlmClient
from docparser.weights import find_layout_model

log = logging.getLogger(__name__)

PREPROCESSING = {"use_doc_orientation_classify": "useDocOrientationClassify", "use_doc_unwarping": "useDocUnwarping"}


class PagePipeline:
    """One layout model and one client of the VLM. Whoever calls a method must hold the worker's baton."""

    def __init__(self, settings: Settings) -> None:
        """Raises NotReady if the layout model or the configuration cannot be loaded."""
        started = time.monotonic()
        # Paddle Inference keeps state per thread, and pages come from many: its models live in one thread.
        self._paddle = ThreadPoolExecutor(1, thread_name_prefix="paddle")
        self.client = BlockClient(VlmClient(settings), settings.vlm_model_name)
        layout = find_layout_model(settings)
        try:
            config = yaml.safe_load(settings.pipeline_config.read_text(encoding="utf-8"))
            self._pipeline = self._paddle.submit(
                PaddleOCRVL,
                pipeline_version="v1",
                paddlex_config=config,
                layout_detection_model_dir=layout.path,
                vl_rec_backend="vllm-server",
                vl_rec_server_url=settings.vlm_url,
                vl_rec_api_model_name=settings.vlm_model_name,
                device="cpu",
                cpu_threads=settings.cpu_threads,
                enable_mkldnn=settings.mkldnn,
            ).result()
        except OSError as exc:
            raise NotReady(f"PARSER_PIPELINE_CONFIG: {settings.pipeline_config} cannot be read ({exc})") from exc
        except Exception as exc:  # Paddle raises anything for a bad model file
            raise NotReady(f"The pipeline cannot be set up with the layout model in {layout.path}: {exc}") from exc
        self._inner = self._pipeline.paddlex_pipeline._pipeline
        self._layout_model, self._inner.layout_det_model = self._inner.layout_det_model, self._find_layout
        if self._inner.use_doc_preprocessor:
            preprocess = self._inner.doc_preprocessor_pipeline
            self._inner.doc_preprocessor_pipeline = lambda *args, **kwargs: self._in_paddle(preprocess, *args, **kwargs)
        own_client, self._inner.vl_rec_model._genai_client = self._inner.vl_rec_model._genai_client, self.client
        own_client.close()
        log.info("pipeline ready after %.1f s, layout model %s", time.monotonic() - started, layout.path)

    def close(self) -> None:
        self.client.close()
        self._paddle.shutdown(wait=False)

    def _in_paddle(self, model, *args, **kwargs) -> list:
        return self._paddle.submit(lambda: list(model(*args, **kwargs))).result()

    def _find_layout(self, *args, **kwargs) -> list:
        began = time.monotonic()
        found = self._in_paddle(self._layout_model, *args, **kwargs)
        self.client.note_layout(time.monotonic() - began)
        return found

    def warm_up(self) -> None:
        """Runs the layout model once, on an empty page: the first run is slower, and must not be a client's."""
        white = np.full((1684, 1190, 3), 255, np.uint8)
        self._find_layout([white])

    def parse(self, image: np.ndarray, predict: dict[str, Any], calls: PageCalls) -> tuple[Any, list[dict]]:
        """One page, uint8 ``[height, width, 3]``, blue first, with predict()'s keywords. Gives the baton away while
        it waits for the VLM.

        Returns paddlex's PaddleOCRVLResult, and what is wrong with single blocks as ``{block_id, kind, message}``.
        Raises InvalidRequest, VlmUnavailable, Cancelled.
        """
        for keyword, field in PREPROCESSING.items():
            if predict.get(keyword) and not self._inner.use_doc_preprocessor:
                raise InvalidRequest(f"{field}: this service has no model for it; send false or leave it out")
        with self.client.page(calls):
            results = list(self._pipeline.predict(image, **predict))
        if len(results) != 1:
            raise InternalError(f"the pipeline gave {len(results)} results for one page")
        return results[0], _take_marks(results[0], calls.notes)

    def restructure(self, pages: list, options: RestructureOptions) -> list:
        """Paddlex's results (or ``{"res": prunedResult}``) of all pages of a document, joined as ``options`` say."""
        return self._pipeline.restructure_pages(
            pages,
            merge_tables=options.merge_tables,
            relevel_titles=options.relevel_titles,
            concatenate_pages=options.concatenate_pages,
        )


def _take_marks(result: Any, notes: list[BlockNote]) -> list[dict]:
    """Removes the notes' marks from the blocks' texts, and tells which block each note belongs to."""
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
