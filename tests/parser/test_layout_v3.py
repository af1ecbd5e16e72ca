# SPDX-License-Identifier: Apache-2.0
"""PaddleOCR-VL-1.6 with PP-DocLayoutV3 through the whole parser: shapes, seals, spotting. Simulated are the VLM and the
layout model's weights; its masks go through PaddleX's own post-processing."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.support.parser_process import JOBS, LIMITS, ParserProcess, running_service, simulated_layout
from tests.support.paths import ROOT
from tests.support.simulated_layout import SHAPES, V3
from tests.support.simulated_vlm import SimulatedVlm, image_of, prompt_of

pytestmark = pytest.mark.server

SIZE = 800, 1000  # of the page, width and height in pixels
CORNERS = [(100, 200), (500, 200), (500, 300), (100, 300)]  # in thousandths of the page


@pytest.fixture(scope="module")
def vlm() -> Iterator[SimulatedVlm]:
    server = SimulatedVlm()
    server.model = "PaddleOCR-VL-1.6-0.9B"
    yield server
    server.close()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, vlm: SimulatedVlm) -> Iterator[ParserProcess]:
    folder = tmp_path_factory.mktemp("v3")
    layout = simulated_layout(folder / V3)
    names = {"VLM_MODEL": "PaddleOCR-VL-1.6", "LAYOUT_MODEL_DIR": str(layout), "PARSER_WORKERS": "1"}
    with running_service(folder, VLM_URL=vlm.url, **{**LIMITS, **names}) as running:
        yield running


def page() -> bytes:
    with io.BytesIO() as buffer:
        Image.new("RGB", SIZE, (0, 0, 200)).save(buffer, "PNG")
        return buffer.getvalue()


def parsed(service: ParserProcess, vlm: SimulatedVlm, **options: Any) -> dict[str, Any]:
    """The result of the page; the VLM has seen no other requests."""
    vlm.requests.clear()
    body = {"file": base64.b64encode(page()).decode(), "visualize": False, **options}
    answer = service.client.post("/layout-parsing", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["result"]


def polygons(result: dict[str, Any]) -> list[Any]:
    blocks = result["layoutParsingResults"][0]["prunedResult"]["parsing_res_list"]
    assert [block["block_label"] for block in blocks] == [label for label, _ in SHAPES]
    return [block.get("block_polygon_points") for block in blocks]


def crop(request: dict[str, Any]) -> np.ndarray:
    """The picture of a request, [height, width, 3] uint8."""
    return np.asarray(image_of(request).convert("RGB"))


def white_share(request: dict[str, Any]) -> float:
    return float((crop(request) == 255).all(axis=-1).mean())


def test_each_shape_mode_gives_its_shapes(service: ParserProcess, vlm: SimulatedVlm):
    assert polygons(parsed(service, vlm, layoutShapeMode="rect")) == [None] * 4
    assert all(white_share(request) == 0 for request in vlm.requests)
    quads = polygons(parsed(service, vlm, layoutShapeMode="quad"))
    assert [len(points) for points in quads] == [4] * 4
    outlines = polygons(parsed(service, vlm, layoutShapeMode="poly"))
    assert len(outlines[2]) == 6, "the L keeps its six corners"
    x, y = zip(*outlines[2], strict=True)
    assert (min(x), max(x), min(y), max(y)) == pytest.approx((80, 720, 450, 750), abs=8)
    # What lies outside of a shape is white in the crop that the VLM reads: nothing of the title, a third of the L.
    shares = sorted(map(white_share, vlm.requests))
    assert shares[0] < 0.05 and shares[1] == pytest.approx(1 / 3, abs=0.05) and shares[2] < 0.8
    simplest = polygons(parsed(service, vlm))  # auto is the default
    for index, (left, top, right, bottom) in ((0, (80, 80, 720, 140)), (2, (80, 450, 720, 750))):
        # Its best rectangle lies along the page, so the box is taken.
        assert simplest[index] == [[left, top], [right, top], [right, bottom], [left, bottom]]
    assert simplest[1] == quads[1] and sorted(map(white_share, vlm.requests))[:2] == [0, 0]


def test_the_answer_names_both_models(service: ParserProcess, vlm: SimulatedVlm):
    models = parsed(service, vlm)["docparser"]["models"]
    assert models["layout"]["model"] == V3 and models["vlm"]["model"] == "PaddleOCR-VL-1.6-0.9B"


def test_seals_are_read_or_stay_pictures(service: ParserProcess, vlm: SimulatedVlm):
    result = parsed(service, vlm)
    assert "Seal Recognition:" not in map(prompt_of, vlm.requests)
    result = parsed(service, vlm, useSealRecognition=True)
    assert "notes" not in result["docparser"]
    (request,) = [one for one in vlm.requests if prompt_of(one) == "Seal Recognition:"]
    assert request["mm_processor_kwargs"] == {"min_pixels": 112896, "max_pixels": 1003520}
    entry = result["layoutParsingResults"][0]
    seal = entry["prunedResult"]["parsing_res_list"][3]
    assert seal["block_content"] and seal["block_content"] in entry["markdown"]["text"]
    assert any("seal" in name for name in entry["markdown"]["images"])
    whole = parsed(service, vlm, useLayoutDetection=False, promptLabel="seal")["layoutParsingResults"][0]
    assert [prompt_of(one) for one in vlm.requests] == ["Seal Recognition:"]
    assert whole["prunedResult"]["parsing_res_list"][0]["block_content"] in whole["markdown"]["text"]


def test_texts_are_spotted(service: ParserProcess, vlm: SimulatedVlm):
    usual = vlm.answer
    places = "".join(f"<|LOC_{value}|>" for corner in CORNERS for value in corner)
    vlm.answer = lambda request, number: f"Total{places}due 重{places}"
    try:
        result = parsed(service, vlm, useLayoutDetection=False, promptLabel="spotting", visualize=True)
    finally:
        vlm.answer = usual
    (request,) = vlm.requests
    assert prompt_of(request) == "Spotting:" and request["skip_special_tokens"] is False
    assert request["mm_processor_kwargs"] == {"min_pixels": 112896, "max_pixels": 1605632}
    assert crop(request).shape == (2 * SIZE[1], 2 * SIZE[0], 3), "a page of less than 1500 pixels is enlarged twice"
    entry = result["layoutParsingResults"][0]
    corners = [[x * SIZE[0] / 1000, y * SIZE[1] / 1000] for x, y in CORNERS]
    assert entry["prunedResult"]["spotting_res"] == {"rec_polys": [corners] * 2, "rec_texts": ["Total", "due 重"]}
    assert "Total" in entry["markdown"]["text"] and "LOC_" not in entry["markdown"]["text"]
    assert "spotting_res_img" in entry["outputImages"]


def test_a_job_takes_the_same_options(service: ParserProcess, vlm: SimulatedVlm):
    answer = service.submit(page(), "a.png", optionalPayload='{"useSealRecognition": true}').json()["data"]
    assert answer["docparser"] == {"model": "PaddleOCR-VL-1.6-0.9B", "notes": []}
    state = service.ended(answer["jobId"])
    assert state["state"] == "done" and state["docparser"]["model"] == "PaddleOCR-VL-1.6-0.9B", state
    text = service.client.get(f"{JOBS}/{answer['jobId']}/result?format=md").text
    assert "Seal Recognition:" in text, "the simulated VLM repeats its prompt"


def test_a_layout_model_of_another_version_is_refused(refused_start, vlm: SimulatedVlm):
    """One line, before anything is loaded."""
    demo = ROOT / "models/demo/PP-DocLayoutV2"
    words = refused_start(VLM_MODEL="PaddleOCR-VL-1.6", LAYOUT_MODEL_DIR=str(demo), VLM_URL=vlm.url)
    assert "holds PP-DocLayoutV2, but PP-DocLayoutV3 belongs to the VLM that is served" in words
    assert words.count("\n") == 1
