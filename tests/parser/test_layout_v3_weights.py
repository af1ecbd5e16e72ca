# SPDX-License-Identifier: Apache-2.0
"""A layout model of PP-DocLayoutV3's architecture with random weights through the whole parser of PaddleOCR-VL-1.6.

Random weights find blocks where there are none, with masks of noise: more and odder shapes than any page has. The
published size costs two minutes more: ``LAYOUT_SHAPE=1`` runs it. Simulated is the VLM.
"""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.parser_process import LIMITS, ParserProcess, running_service
from tests.support.paths import DATA
from tests.support.processes import child_environment
from tests.support.simulated_layout import LABELS, V3
from tests.support.simulated_vlm import SimulatedVlm
from tests.support.wait import WAIT_S

pytestmark = [pytest.mark.server, pytest.mark.long]
PAGES = ("report.png", "letter.png")


@pytest.fixture(scope="module")
def vlm() -> Iterator[SimulatedVlm]:
    server = SimulatedVlm()
    server.model = "PaddleOCR-VL-1.6-0.9B"
    yield server
    server.close()


@pytest.fixture(scope="module", params=["small", "published"])
def service(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, vlm: SimulatedVlm
) -> Iterator[ParserProcess]:
    if request.param == "published" and "LAYOUT_SHAPE" not in os.environ:
        pytest.skip("a minute of processor time; LAYOUT_SHAPE=1 runs it")
    folder = tmp_path_factory.mktemp(request.param)
    small = ["--small"] if request.param == "small" else []
    command = [sys.executable, "-m", "demo_training.layout.published_shape_v3", str(folder / V3), *small]
    built = subprocess.run(command, env=child_environment(), capture_output=True, text=True, timeout=WAIT_S)
    assert built.returncode == 0, built.stderr
    names = {"VLM_MODEL": "PaddleOCR-VL-1.6", "LAYOUT_MODEL_DIR": str(folder / V3), "PARSER_WORKERS": "1"}
    # As the default chooses; with this value a start fails where OpenVINO cannot run the model.
    names["LAYOUT_ENGINE"] = "openvino"
    with running_service(folder, VLM_URL=vlm.url, **{**LIMITS, **names}) as running:
        yield running


def blocks(service: ParserProcess, page: str, **options: Any) -> list[dict[str, Any]]:
    """The blocks of a page, checked: each in its page, read, and in a place of its own in the order."""
    file = base64.b64encode((DATA / page).read_bytes()).decode()
    answer = service.parse(file, visualize=False, **options)
    assert answer.status_code == 200, answer.text
    result = answer.json()["result"]
    assert result["docparser"]["models"]["layout"]["model"] == V3
    pruned = result["layoutParsingResults"][0]["prunedResult"]
    found = pruned["parsing_res_list"]
    for block in found:
        left, top, right, bottom = block["block_bbox"]
        assert 0 <= left < right <= pruned["width"] and 0 <= top < bottom <= pruned["height"], block
        assert block["block_label"] in LABELS, block
    order = [block["block_order"] for block in found if block["block_order"] is not None]
    assert len(set(order)) == len(order)
    return found


def test_pages_are_parsed_in_every_shape_mode(service: ParserProcess, vlm: SimulatedVlm):
    vlm.requests.clear()
    seen = {page: blocks(service, page) for page in PAGES}
    assert all(seen.values()) and vlm.requests, "blocks were found and read"
    assert seen[PAGES[0]] != seen[PAGES[1]], "the model looks at the page"
    assert all(block.get("block_polygon_points") is None for block in blocks(service, PAGES[0], layoutShapeMode="rect"))
    by_mode = {mode: blocks(service, PAGES[0], layoutShapeMode=mode) for mode in ("quad", "poly")}
    for found, least in ((by_mode["quad"], 4), (by_mode["poly"], 3), (seen[PAGES[0]], 3)):  # the last is "auto"
        assert all(len(block["block_polygon_points"]) >= least for block in found)
