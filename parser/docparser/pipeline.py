# SPDX-License-Identifier: Apache-2.0
"""PaddleOCR's PaddleOCRVL, set up for this service. Imported in worker processes only: it loads Paddle."""

from __future__ import annotations

import logging
import time
from typing import Any

import numpy as np
import yaml
from paddleocr import PaddleOCRVL

from docparser.block_client import FAILURE_MARK, BlockClient, BlockFailure
from docparser.errors import InternalError, InvalidRequest, NotReady, VlmUnavailable
from docparser.options import RestructureOptions
from docparser.settings import Settings
from docparser.weights import find_layout_model

log = logging.getLogger(__name__)

PREPROCESSING = {"use_doc_orientation_classify": "useDocOrientationClassify", "use_doc_unwarping": "useDocUnwarping"}


class PagePipeline:
    """One layout model and one client of the VLM; parses one page at a time."""

    def __init__(self, settings: Settings) -> None:
        """Raises NotReady if the layout model or the configuration cannot be loaded."""
        started = time.monotonic()
        layout = find_layout_model(settings)
        self._client = BlockClient(
            settings.vlm_url,
            settings.vlm_model_name,
            concurrency=settings.vlm_concurrency,
            connect_timeout_s=settings.vlm_connect_timeout_s,
            timeout_s=settings.vlm_timeout_s,
        )
        try:
            config = yaml.safe_load(settings.pipeline_config.read_text(encoding="utf-8"))
            self._pipeline = PaddleOCRVL(
                pipeline_version="v1",
                paddlex_config=config,
                layout_detection_model_dir=layout.path,
                vl_rec_backend="vllm-server",
                vl_rec_server_url=settings.vlm_url,
                vl_rec_api_model_name=settings.vlm_model_name,
                device="cpu",
                cpu_threads=settings.cpu_threads,
                enable_mkldnn=settings.mkldnn,
            )
        except OSError as exc:
            raise NotReady(f"PARSER_PIPELINE_CONFIG: {settings.pipeline_config} cannot be read ({exc})") from exc
        except Exception as exc:  # Paddle raises anything for a bad model file
            raise NotReady(f"The pipeline cannot be set up with the layout model in {layout.path}: {exc}") from exc
        self._inner = self._pipeline.paddlex_pipeline
        own_client, self._inner.vl_rec_model._genai_client = self._inner.vl_rec_model._genai_client, self._client
        own_client.close()
        log.info("pipeline ready after %.1f s, layout model %s", time.monotonic() - started, layout.path)

    def warm_up(self) -> None:
        """Runs the layout model once, on an empty page: the first run is slower, and must not be a client's."""
        white = np.full((1684, 1190, 3), 255, np.uint8)
        list(self._inner.layout_det_model([white]))

    def parse(self, image: np.ndarray, predict: dict[str, Any]) -> tuple[Any, list[dict], int]:
        """One page, uint8 ``[height, width, 3]``, blue first, with predict()'s keywords.

        Returns paddlex's PaddleOCRVLResult, the failures as ``{block_id, kind, message}``, and how many blocks the VLM
        answered. Raises InvalidRequest, VlmUnavailable.
        """
        for keyword, field in PREPROCESSING.items():
            if predict.get(keyword) and not self._inner.use_doc_preprocessor:
                raise InvalidRequest(f"{field}: this service has no model for it; send false or leave it out")
        self._client.begin_page()
        results = list(self._pipeline.predict(image, **predict))
        if len(results) != 1:
            raise InternalError(f"the pipeline gave {len(results)} results for one page")
        failures = self._client.failures
        if failures and not self._client.answered and all(failure.kind == "failed" for failure in failures):
            raise VlmUnavailable(f"The VLM server failed on every block of a page: {failures[0].message}")
        return results[0], _take_marks(results[0], failures), self._client.answered

    def restructure(self, pages: list, options: RestructureOptions) -> list:
        """Paddlex's results (or ``{"res": prunedResult}``) of all pages of a document, joined as ``options`` say."""
        return self._pipeline.restructure_pages(
            pages,
            merge_tables=options.merge_tables,
            relevel_titles=options.relevel_titles,
            concatenate_pages=options.concatenate_pages,
        )


def _take_marks(result: Any, failures: list[BlockFailure]) -> list[dict]:
    """Empties the blocks that hold the mark of a failure, and tells which block each failure belongs to."""
    block_of = {}
    if failures:
        for block_id, block in enumerate(result["parsing_res_list"]):
            for mark in FAILURE_MARK.finditer(block.content or ""):
                block_of[int(mark.group(1))] = block_id
            block.content = FAILURE_MARK.sub("", block.content or "")
    return [
        {"block_id": block_of.get(number), "kind": failure.kind, "message": failure.message}
        for number, failure in enumerate(failures)
    ]
