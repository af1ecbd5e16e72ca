# SPDX-License-Identifier: Apache-2.0
"""A request is the one that PaddleX would send, its JPEG byte by byte."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from paddlex.inference.models.doc_vlm.predictor import DocVLMGenAIClientPredictor

from docparser.contract.schemas import ParseOptions
from docparser.page.question import (
    LEAST_PIXELS,
    MAX_NEW_TOKENS,
    MOST_PIXELS,
    BlockCalls,
    Question,
    Sampling,
    pixel_bounds,
    read_block,
    widened,
)
from docparser.vlm.repetition import TABLE, TEXT, Guard

CROP = np.random.default_rng(5).integers(0, 255, (60, 200, 3), np.uint8)
CHOSEN = {"temperature": 0.3, "topP": 0.9, "repetitionPenalty": 1.1, "maxNewTokens": 77}


def of_paddlex(question: Question, options: dict[str, Any], spotting: bool) -> dict[str, Any]:
    predictor: Any = SimpleNamespace(model_name="PaddleOCR-VL-0.9B")
    ((messages, fields),) = DocVLMGenAIClientPredictor._doc_vlm_genai_build_request_specs(
        predictor,
        SimpleNamespace(backend="vllm-server"),
        [{"image": question.picture, "query": question.prompt}],
        "JPEG",
        options.get("maxNewTokens", MAX_NEW_TOKENS),
        not spotting,
        *(options.get(name) for name in ("repetitionPenalty", "temperature", "topP")),
        question.least_pixels,
        question.most_pixels,
    )
    return {"messages": messages, **fields.pop("extra_body"), **fields}


@pytest.mark.parametrize(("prompt", "guard"), [("OCR:", TEXT), ("Table Recognition:", TABLE), ("Formula:", TEXT)])
def test_a_block_is_one_request_with_the_bound_of_its_kind(prompt: str, guard: Guard):
    asked: list[Any] = []

    async def read(body: dict[str, Any], request_id: str, guard: Guard) -> None:
        asked.append((body.pop("model"), body, request_id, guard))

    question, sampling = Question(CROP, prompt, 5, 9), Sampling.of(ParseOptions(), spotting=False)
    client: Any = SimpleNamespace(read_block=read)
    asyncio.run(read_block(question, sampling, BlockCalls(client, "m", "r-b3")))
    assert asked == [("m", question.request(sampling), "r-b3", guard)]


@pytest.mark.parametrize("spotting", [False, True])
@pytest.mark.parametrize("options", [{}, CHOSEN, {"temperature": 0.0, "topP": 1.0}], ids=["none", "all", "some"])
def test_the_request_is_paddlexs(options: dict[str, Any], spotting: bool):
    question = Question(CROP, "OCR:", 112_896, 1_003_520)
    ours = question.request(Sampling.of(ParseOptions(**options), spotting=spotting))
    assert ours == of_paddlex(question, options, spotting)


@pytest.mark.parametrize(
    ("size", "sent"),
    [((24, 5200), (26, 5200)), ((5200, 24), (5200, 26)), ((26, 5200), (26, 5200)), ((1, 900), (5, 900))],
)
def test_a_strip_is_sent_no_thinner_than_the_vlm_takes(size: tuple[int, int], sent: tuple[int, int]):
    picture = np.full((*size, 3), (10, 20, 30), np.uint8)
    picture[0, :4] = 200  # of its ink
    found = widened(picture)
    assert found.shape == (*sent, 3) and (found[-1, -1] == (10, 20, 30)).all()
    assert (found == 200).sum() == (picture == 200).sum(), "all of it is there"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({}, {"table_min_pixels": LEAST_PIXELS, "table_max_pixels": MOST_PIXELS, "ocr_max_pixels": MOST_PIXELS}),
        ({"minPixels": 5, "maxPixels": 9}, {"seal_min_pixels": 5, "formula_max_pixels": 9}),
        ({"maxPixels": 9, "vlmExtraArgs": {"table_max_pixels": 7}}, {"table_max_pixels": 7, "ocr_max_pixels": 9}),
        ({"maxPixels": 9, "vlmExtraArgs": {"max_pixels": 8}}, {"chart_max_pixels": 8, "ocr_max_pixels": 8}),
        ({"minPixels": 2_000_000}, {"ocr_min_pixels": 2_000_000, "ocr_max_pixels": 2_000_000}),
        ({"maxPixels": 100_000}, {"seal_min_pixels": 100_000, "seal_max_pixels": 100_000}),
        (
            {"vlmExtraArgs": {"table_min_pixels": 2_000_000, "ocr_max_pixels": 9}},
            {"table_max_pixels": 2_000_000, "ocr_min_pixels": 9, "chart_min_pixels": LEAST_PIXELS},
        ),
    ],
)
def test_bounds_of_pixels_by_what_is_on_a_crop(said: dict[str, Any], expected: dict[str, int]):
    found = pixel_bounds(ParseOptions(**said))
    assert len(found) == 10 and expected.items() <= found.items()
