# SPDX-License-Identifier: Apache-2.0
"""The layout server gives Paddle's values: the published architecture, and the demo's boxes by HTTP and in batches.

tests/parser/layout/test_in_torch.py has each operation alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from demo_training.layout.measure import configured, pixels
from docparser.layout.conversion import _difference, decisions, draw_page
from docparser.layout.served import LayoutServer
from docparser.page.layout_model import predictor
from paddle_program.program import model_checksum, model_files, read_program
from tests.layout.compared import iou
from tests.support.in_torch import in_both
from tests.support.layout_server import DEMO, LayoutServerProcess
from tests.support.published_operators import PUBLISHED

PAGES = int(os.environ.get("LAYOUT_PAGES", "8"))


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[LayoutServerProcess]:
    process = LayoutServerProcess(tmp_path_factory.mktemp("server"))
    try:
        yield process.wait()
    finally:
        process.end()


def test_the_published_architecture_from_paddles_decisions(published, small_shape):
    """As the translator to OpenVINO is checked: random weights decide by roundings, so both go on from Paddle's."""
    program = read_program(*model_files(small_shape))
    decided = [number for decision in decisions(program) for number in decision.outputs]
    assert len(decided) > 5
    results, found = in_both(small_shape, draw_page(), decided)
    assert found["plan_differs"] == []
    assert set(found["operators"]) == PUBLISHED[published]
    ours = np.load(small_shape / "torch.npz")
    for number, theirs in enumerate(results):
        assert _difference(f"output {number}", ours[str(number)], theirs) < 5e-4


def test_the_same_boxes_through_the_server(server, drawn):
    """Several clients at once, so that pages share calls of the device."""
    assert server.health["model"] == model_checksum(DEMO)
    assert server.health["batch"] == 2, "the demo's program takes several pages"
    client = LayoutServer(server.url, DEMO, timeout_s=300.0)
    ours = predictor("PP-DocLayoutV2", DEMO, lambda inputs: client.find(inputs) or [], {}, **configured())
    pages, expected = zip(*drawn(PAGES))
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda page: next(iter(ours.predict([pixels(page)])))["boxes"], pages))
    assert client.counts["layout_served"] == PAGES and not client.away
    least, furthest = 1.0, 0.0
    for mine, others in zip(found, expected, strict=True):
        assert [(box["label"], box["order"]) for box in mine] == [(box["label"], box["order"]) for box in others]
        for one, other in zip(mine, others, strict=True):
            least = min(least, iou(one["coordinate"], other["coordinate"]))
            furthest = max(furthest, abs(one["score"] - other["score"]))
    print(f"{PAGES} pages: least IoU {least:.5f}, scores within {furthest:.1e}")
    assert least >= 0.99 and furthest <= 0.01
    metrics = server.metrics()
    assert metrics["layout_pages_total"] == PAGES
    assert metrics["layout_batch_pages_sum"] == PAGES
