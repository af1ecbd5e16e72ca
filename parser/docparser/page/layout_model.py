# SPDX-License-Identifier: Apache-2.0
"""The layout model: where the blocks of a page are, in reading order, which the model says itself.

Its engine is OpenVINO, Paddle, or a layout server. What is done before and after the engine is PaddleX's, with one
exception: PaddleX makes float32 of the picture, plane by plane, and stacks these: 7.7 MB several times, of which a
layout server gets the bytes again. Here a page stays `uint8` (1.9 MB). An engine on the CPU gets ``full_image`` of it,
which is PaddleX's own product, bit for bit.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from docparser.contract.schemas import ParseOptions
from docparser.errors import NotReady
from docparser.layout.graph import Engine, GraphCache, NoGraph
from docparser.layout.served import LayoutServer
from docparser.page import long_pages
from docparser.page.paddlex_private import (
    LayoutAnalysisResult,
    LayoutAnalysisRunnerPredictor,
    boxes_in,
    create_predictor,
    in_bytes,
    labels_of,
    with_boxes_at_least,
)
from docparser.page.run import PageRun
from docparser.settings import Settings
from docparser.weights import find_layout_model
from layout_wire import full_image

log = logging.getLogger(__name__)

PADDLE, OPENVINO = "paddle", "openvino"
CONFIGURED = ("threshold", "layout_nms", "layout_unclip_ratio", "layout_merge_bboxes_mode")
EMPTY_PAGE = (1684, 1190, 3)

Arrays = Sequence[np.ndarray]


class LayoutModel:
    """``engine``: openvino or paddle, where a layout ``server`` is not used or does not answer."""

    def __init__(self, settings: Settings, config: dict[str, Any], thread: ThreadPoolExecutor) -> None:
        """``config``: the pipeline's. The engine runs in ``thread``, which has one: Paddle keeps state per thread.

        Raises NotReady if the model cannot be loaded.
        """
        found = find_layout_model(settings)
        assert found.path is not None, "found on this machine"
        folder = Path(found.path)
        engine = openvino_engine(settings, folder)
        self.engine = PADDLE if engine is None else OPENVINO
        self.server = layout_server(settings, folder)
        chosen = config["SubModules"]["LayoutDetection"]
        configured = {name: chosen[name] for name in CONFIGURED if chosen.get(name) is not None}
        self._thread = thread
        try:
            self._model = thread.submit(
                predictor, found.model, folder, engine, paddle_config(settings), **configured
            ).result()
        except Exception as exc:  # Paddle raises any exception for a bad model file
            raise NotReady(f"The layout model in {folder} cannot be set up: {exc}") from exc
        self._read, *steps = self._model.pre_ops
        small = in_bytes(steps)
        if small is None:
            log.info("the layout model's picture is not plain bytes; PaddleX makes it of numbers")
        self._steps = small or steps

    def warm_up(self) -> None:
        """Run the engine once, because its first run is slower. On the CPU: it must be ready for the moment in which a
        server goes away."""
        self._on_cpu(self._prepared(np.full(EMPTY_PAGE, 255, np.uint8))[1])

    def find(self, page: np.ndarray, options: ParseOptions, run: PageRun) -> LayoutAnalysisResult:
        """``page``: uint8 ``[height, width, 3]``, blue first. The result's ``boxes`` are in reading order. A long page
        is found part by part. Raises PageCancelled."""
        found = []
        for part in long_pages.parts(page):
            run.check()
            found.append((part, self._boxes(page[part.top : part.bottom], options, run)))
        boxes = found[0][1] if len(found) == 1 else long_pages.joined(found, labels_of(self._model))
        return LayoutAnalysisResult({"input_path": None, "page_index": None, "input_img": page, "boxes": boxes})

    def _boxes(self, page: np.ndarray, options: ParseOptions, run: PageRun) -> list[dict]:
        read, arrays = self._prepared(page)
        found = self._on_server(arrays, run)
        if found is None:
            found = self._on_cpu(arrays)
        of_request = functools.partial(
            boxes_in,
            self._model,
            found,
            read,
            threshold=options.layoutThreshold,
            layout_nms=options.layoutNms,
            layout_unclip_ratio=options.layoutUnclipRatio,
            layout_merge_bboxes_mode=options.layoutMergeBboxesMode,
        )
        return with_boxes_at_least(lambda mode: of_request(layout_shape_mode=mode), options.shape_mode)

    def _prepared(self, page: np.ndarray) -> tuple[list[dict], Arrays]:
        """The page as PaddleX reads it, and what the engine is asked with; the picture among it may be bytes."""
        read = datas = self._read([page])
        for step in self._steps:
            datas = step(datas)
        return read, datas

    def _on_server(self, arrays: Arrays, run: PageRun) -> list[np.ndarray] | None:
        """None where there is none, or it does not answer."""
        if self.server is None:
            return None
        with run.without_cpu():
            found = self.server.find(arrays)
        run.check()
        return found

    def _on_cpu(self, arrays: Arrays) -> list[np.ndarray]:
        return self._thread.submit(self._model.runner, [full_image(array) for array in arrays]).result()


def predictor(
    name: str, folder: Path, engine: Any, paddle: dict[str, Any], **configured: Any
) -> LayoutAnalysisRunnerPredictor:
    """PaddleX's layout model with ``engine`` in it; with Paddle, as ``paddle`` configures it, where that is None.

    Paddle's own engine is not built besides, which would take as long and as much memory again.
    """
    if engine is None:
        return create_predictor(name, model_dir=str(folder), device="cpu", engine_config=paddle, **configured)
    return LayoutAnalysisRunnerPredictor(runner=engine, model_name=name, model_dir=str(folder), **configured)


def paddle_config(settings: Settings) -> dict[str, Any]:
    """How Paddle runs a model, in PaddleX's words."""
    return {"cpu_threads": settings.cpu_threads}


def layout_server(settings: Settings, folder: Path) -> LayoutServer | None:
    """The client of LAYOUT_URL, None where that is not set. Raises NotReady."""
    if not settings.layout_url:
        return None
    try:
        return LayoutServer(settings.layout_url, folder, settings.layout_timeout_s)
    except OSError as exc:
        raise NotReady(f"The layout model in {folder} cannot be read: {exc}") from exc


def openvino_engine(settings: Settings, folder: Path) -> Callable[[Arrays], list[np.ndarray]] | None:
    """OpenVINO with the model's graph, or None where Paddle is to run it (LAYOUT_ENGINE). Raises NotReady where
    OpenVINO is asked for and cannot be had."""
    if settings.layout_engine == PADDLE:
        return None
    try:
        graph = GraphCache(settings.cache_dir / "layout", settings.start_timeout_s / 2).find(folder)
        return Engine(graph, settings.cpu_threads)
    except (NoGraph, ImportError, RuntimeError) as exc:  # RuntimeError is OpenVINO's
        reason = str(exc).strip().splitlines()[-1]
    if settings.layout_engine == OPENVINO:
        raise NotReady(f"LAYOUT_ENGINE is openvino, but OpenVINO cannot run {folder}: {reason}; set auto or paddle.")
    log.warning("Paddle runs the layout model in %s, because OpenVINO cannot: %s", folder, reason)
    return None
