# SPDX-License-Identifier: Apache-2.0
"""What both engines and the layout server are compared with: a small model of the published architecture, and Paddle's
boxes on drawn pages. Each is made once for all tests."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# PaddleX takes ten; on two cores they wait for each other. The parser says its own number.
os.environ.setdefault("PADDLE_PDX_CPU_NUM_THREADS", "1")

from demo_training.layout.measure import load, pixels
from demo_training.pages.documents import draw_page
from demo_training.pages.page import Page
from tests.layout.compared import MAKERS, published_shape
from tests.support.layout_server import DEMO

FIRST_SEED = 4_000_000
# A page, and the boxes that Paddle finds on it.
Drawn = tuple[Page, list[dict[str, Any]]]


@pytest.fixture(scope="session", params=MAKERS)
def published(request: pytest.FixtureRequest) -> str:
    """The name of a published model."""
    return request.param


@pytest.fixture(scope="session")
def small_shape(published: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return published_shape(published, tmp_path_factory.mktemp("small"), "--small")


@pytest.fixture(scope="session")
def paddle() -> Any:
    """The demo's model through PaddleX, on Paddle's engine."""
    return load(DEMO)


@pytest.fixture(scope="session")
def drawn(paddle: Any) -> Callable[[int], list[Drawn]]:
    """So many pages; those that were asked for before are the same."""
    known: list[Drawn] = []

    def first(count: int) -> list[Drawn]:
        for seed in range(FIRST_SEED + len(known), FIRST_SEED + count):
            page = draw_page(seed, "heldout", core=True)
            known.append((page, next(iter(paddle.predict([pixels(page)])))["boxes"]))
        return known[:count]

    return first
