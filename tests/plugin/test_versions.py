# SPDX-License-Identifier: Apache-2.0
"""PaddleOCR-VL-1.6 on a real vLLM, by its entry of models.yaml: template, bounds of pixels and prompts, against
transformers' own class. Random weights in small layers, float32. The entry of 1.5 differs from it in names alone.
"""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from tests.plugin.chat import body, encode, image_part, send, text_part
from tests.plugin.checkpoints import name_version
from tests.plugin.drawings import page
from tests.plugin.families import Conversation
from tests.plugin.family_checkpoints import NEW_TOKENS, Checkpoint, Made, check_greedy, starting
from tests.support.parser_process import ParserProcess, running_service, simulated_layout
from tests.support.paths import DATA, ROOT, python_of
from tests.support.simulated_layout import V3
from vlm_server.serving import Serving

pytestmark = pytest.mark.model

ENTRY, NAME = "PaddleOCR-VL-1.6", "PaddleOCR-VL-1.6-0.9B"
# PaddleX 3.7.2 sends these prompts and bounds of pixels; the entry's own bounds hold where a request has none.
CONVERSATIONS = {
    "seal": Conversation("Seal Recognition:", (300, 260), min_pixels=112896, max_pixels=1003520),
    "spotting": Conversation("Spotting:", (1500, 1200), min_pixels=112896, max_pixels=1605632),
    "a page without bounds": Conversation("OCR:", (1500, 1200)),
    "a line": Conversation("Formula Recognition:", (40, 600)),
}
# Of 1500 x 1200 pixels, in whole blocks of 28 x 28 within 1605632 and 1003520 pixels.
TOKENS = {"spotting": 50 * 40, "a page without bounds": 40 * 31}


@pytest.fixture(scope="module")
def checkpoint(reference_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    made = Checkpoint("paddleocr_vl", tmp_path_factory.mktemp("newer"), reference_python, entry=ENTRY)
    name_version(made.path, NAME)
    # Version 1's prompt ends in "Assistant: ".
    made.form = dataclasses.replace(made.form, chat="<|begin_of_sentence|>User: {media}{text}\nAssistant:\n")
    return made


@pytest.fixture(scope="module")
def server(checkpoint: Checkpoint) -> Iterator[Future[tuple[str, int]]]:
    with starting(checkpoint) as ready:
        yield ready


@pytest.fixture(scope="module")
def made(checkpoint: Checkpoint, server: object, reference_python: Path) -> Made:
    return Made(checkpoint, reference_python, CONVERSATIONS)


@pytest.fixture(scope="module")
def served(server: Future[tuple[str, int]]) -> str:
    return server.result()[0]


def test_a_server_answers_with_transformers_greedy_tokens(made: Made, served: str):
    for index, (name, one) in enumerate(made.conversations.items()):
        check_greedy(made, served, index, one.body(NAME, max_tokens=NEW_TOKENS, return_token_ids=True))
        if name in TOKENS:
            assert made.of(index, "image_grid_thw").prod() == 4 * TOKENS[name], name


def test_the_server_has_this_versions_names_alone(served: str):
    good = body(image_part(encode(page())), text_part("Seal Recognition:"), model=ENTRY)
    assert send(served, good).status_code == 200
    refused = send(served, {**good, "model": "PaddleOCR-VL-0.9B"})
    assert refused.status_code == 404 and f"expected {NAME} or {ENTRY}" in refused.text


def test_the_entries_of_the_two_versions_differ_in_names_alone():
    models = Serving.load(ROOT / "config/models.yaml").models
    assert models["PaddleOCR-VL-1.5"] == models[ENTRY]


@pytest.fixture
def parser(served: str, checkpoint: Checkpoint, tmp_path: Path) -> Iterator[ParserProcess]:
    """A parser that reads with the server; its layout model is simulated, and not asked here."""
    if not python_of("parser").exists():
        pytest.skip("the environment parser is not there")
    settings = {"VLM_URL": f"{served}/v1", "VLM_MODEL": ENTRY, "MODELS_DIR": str(checkpoint.folder)}
    layout = simulated_layout(tmp_path / V3)
    with running_service(tmp_path, LAYOUT_MODEL_DIR=str(layout), **settings) as running:
        yield running


@pytest.mark.long
def test_the_parser_asks_it_for_seals_and_for_places(parser: ParserProcess):
    """Random weights answer with noise, so every answer is cut at its length; all steps are real."""
    image = base64.b64encode((DATA / "letter.png").read_bytes()).decode()
    for task in ("seal", "spotting"):
        options = {"promptLabel": task, "useLayoutDetection": False, "maxNewTokens": NEW_TOKENS, "visualize": False}
        result = parser.parse(image, **options).json()["result"]
        assert result["docparser"]["models"]["vlm"]["model"] == NAME
        (read,) = result["layoutParsingResults"]
        (block,) = read["prunedResult"]["parsing_res_list"]
        assert block["block_label"] == task
        assert ("spotting_res" in read["prunedResult"]) == (task == "spotting")
        assert {note["kind"] for note in result["docparser"]["pages"][0]["blocks"]} <= {"length", "place"}, task
