# SPDX-License-Identifier: Apache-2.0
"""Which engine runs the layout model, and its place inside PaddleX. Imported in worker processes only."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from paddlex.inference.models.engines import paddle as paddle_engine
from paddlex.inference.models.runners import InferenceRunner

from docparser.errors import NotReady
from docparser.layout.graph_cache import GraphCache, NoGraph
from docparser.settings import Settings

log = logging.getLogger(__name__)

PADDLE, OPENVINO = "paddle", "openvino"


def openvino_runner(settings: Settings, model_dir: Path) -> Any:
    """OpenVINO with the model's graph, or None where Paddle is to run it (LAYOUT_ENGINE). Raises NotReady where
    OpenVINO is asked for and cannot be had."""
    if settings.layout_engine == PADDLE:
        return None
    try:
        graph = GraphCache(settings.cache_dir / "layout", settings.start_timeout_s / 2).find(model_dir)
        # Not at the top: it loads OpenVINO, which may not be there, or not run on this machine.
        from docparser.layout.engine import Engine

        return Engine(graph, settings.cpu_threads)
    except (NoGraph, ImportError, RuntimeError) as exc:  # RuntimeError is OpenVINO's
        reason = str(exc).strip().splitlines()[-1]
    if settings.layout_engine == OPENVINO:
        raise NotReady(f"LAYOUT_ENGINE is openvino, but OpenVINO cannot run {model_dir}: {reason}; set auto or paddle.")
    log.warning("Paddle runs the layout model in %s, because OpenVINO cannot: %s", model_dir, reason)
    return None


@contextmanager
def in_place_of_paddle(engine: Any, model_dir: Path) -> Iterator[None]:
    """While it lasts, PaddleX sets up ``engine`` for the model in ``model_dir``, and Paddle for all others.

    A runner is what PaddleX calls with the arrays that its pre-processing made. Paddle's own is never built for this
    model, which would take as long and as much memory again.
    """
    theirs = paddle_engine.PaddleStaticRunner

    class Runner(theirs):  # type: ignore[misc, valid-type]  # PaddleX has no types
        def __init__(self, *, model_dir: Path | str, **kwargs: Any) -> None:
            self._engine = engine if engine is not None and Path(model_dir) == own_dir else None
            if self._engine is None:
                super().__init__(model_dir=model_dir, **kwargs)
            else:
                InferenceRunner.__init__(self)

        def __call__(self, x: Sequence[np.ndarray]) -> list[np.ndarray]:
            return super().__call__(x) if self._engine is None else self._engine(x)

    own_dir = Path(model_dir)
    paddle_engine.PaddleStaticRunner = Runner
    try:
        yield
    finally:
        paddle_engine.PaddleStaticRunner = theirs
