# SPDX-License-Identifier: Apache-2.0
"""Which engine runs the layout model, and its place inside PaddleX. Imported in worker processes only."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from paddlex.inference.models.engines import paddle as paddle_engine
from paddlex.inference.models.runners import InferenceRunner

from docparser.errors import NotReady
from docparser.layout.graph_cache import GraphCache, NoGraph
from docparser.layout.served import LayoutServer
from docparser.settings import Settings
from layout_wire import full_image

log = logging.getLogger(__name__)

PADDLE, OPENVINO = "paddle", "openvino"
Arrays = Sequence[np.ndarray]
Around = Callable[[Callable[[Arrays], list[np.ndarray]], Arrays], list[np.ndarray]]


def layout_server(settings: Settings, model_dir: Path) -> LayoutServer | None:
    """The client of LAYOUT_URL, None where that is not set. Raises NotReady."""
    if not settings.layout_url:
        return None
    try:
        return LayoutServer(settings.layout_url, model_dir, settings.layout_timeout_s)
    except OSError as exc:
        raise NotReady(f"The layout model in {model_dir} cannot be read: {exc}") from exc


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
def in_place_of_paddle(engine: Any, model_dir: Path, around: Around | None = None) -> Iterator[None]:
    """While it lasts, PaddleX sets up ``engine`` for the model in ``model_dir``, and Paddle for all others and where
    ``engine`` is None. ``around`` is called in the place of either, with it and with the arrays. The picture among them
    may be bytes (``layout_pixels``).

    A runner is what PaddleX calls with the arrays that its pre-processing made. Paddle's own is never built for this
    model, which would take as long and as much memory again.
    """
    theirs = paddle_engine.PaddleStaticRunner

    class Runner(theirs):  # type: ignore[misc, valid-type]  # PaddleX has no types
        def __init__(self, *, model_dir: Path | str, **kwargs: Any) -> None:
            own = Path(model_dir) == own_dir
            self._engine = engine if own else None
            self._around = around if own else None
            if self._engine is None:
                super().__init__(model_dir=model_dir, **kwargs)
            else:
                InferenceRunner.__init__(self)

        def __call__(self, x: Sequence[np.ndarray]) -> list[np.ndarray]:
            engine = super().__call__ if self._engine is None else self._engine

            def on_cpu(arrays: Arrays) -> list[np.ndarray]:
                return engine([full_image(array) for array in arrays])

            return on_cpu(x) if self._around is None else self._around(on_cpu, x)

    own_dir = Path(model_dir)
    paddle_engine.PaddleStaticRunner = Runner
    try:
        yield
    finally:
        paddle_engine.PaddleStaticRunner = theirs
