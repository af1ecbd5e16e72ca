# SPDX-License-Identifier: Apache-2.0
"""What both engines and the layout server are compared with: a small model of the published architecture, and Paddle's
boxes on drawn pages. Each is made once for all tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from demo_training.layout.measure import load
from demo_training.pages.documents import draw_page
from tests.layout.compared import published_shape
from tests.support.layout_server import DEMO

FIRST_SEED = 4_200_000
# Of a page: its pixels [height, width, 3] in the order BGR, and the boxes that Paddle finds.
Drawn = tuple[np.ndarray, list[dict[str, Any]]]


@pytest.fixture(scope="session")
def small_shape(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return published_shape(tmp_path_factory.mktemp("small"), "--small")


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
            page = draw_page(seed, "heldout", core=True).image
            pixels = np.ascontiguousarray(np.asarray(page)[:, :, ::-1])
            known.append((pixels, next(iter(paddle.predict([pixels])))["boxes"]))
        return known[:count]

    return first
