# SPDX-License-Identifier: Apache-2.0
"""Qwen2-VL and HunyuanOCR, vLLM's models with our inputs, against transformers' own classes; and served.

Of each family the tests run where this environment's vLLM has it. Random weights in small layers, float32.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from reference.prompts import OF_FAMILY
from selftest.tiny_image import tiny_request
from tests.plugin.chat import encode, image_part, send, text_part
from tests.plugin.clips import clip
from tests.plugin.families import video_part
from tests.plugin.family_checkpoints import (
    ENTRIES,
    NEW_TOKENS,
    SERVED,
    Checkpoint,
    Made,
    check_agreement,
    check_greedy,
    starting,
)
from tests.plugin.generated import check_generated
from tests.support.parser_process import ParserProcess, running_service
from tests.support.paths import DATA, python_of

pytestmark = [pytest.mark.model, pytest.mark.long]


@pytest.fixture(scope="module", params=SERVED)
def checkpoint(
    request: pytest.FixtureRequest, reference_python: Path, tmp_path_factory: pytest.TempPathFactory
) -> Checkpoint:
    return Checkpoint(request.param, tmp_path_factory.mktemp(request.param), reference_python)


@pytest.fixture(scope="module")
def server(checkpoint: Checkpoint) -> Iterator[Future[tuple[str, int]]]:
    """It starts while the two implementations compute."""
    with starting(checkpoint) as ready:
        yield ready


@pytest.fixture(scope="module")
def made(checkpoint: Checkpoint, server: object, reference_python: Path) -> Made:
    return Made(checkpoint, reference_python)


@pytest.fixture(scope="module")
def served(server: Future[tuple[str, int]]) -> str:
    """Base URL of the server, which is ready."""
    return server.result()[0]


def test_inputs_and_logits_are_transformers(made: Made):
    check_agreement(made)


def test_the_seeds_figures(made: Made):
    """Size, grid, patches and tokens that the articles on these models work out by hand."""
    if made.family == "qwen2_vl":
        assert made.of(0, "image_grid_thw").tolist() == [[1, 62, 64]], "868 x 899 became 868 x 896"
        assert list(made.of(0, "pixel_values").shape) == [3968, 1176]
        place, begin, end = (made.reference["0.input_ids"] == token for token in (6, 3, 4))
        assert place.sum() == 992 and begin.sum() == end.sum() == 1
        assert (made.of(1, "input_ids")[:, None] == torch.tensor([3, 6, 4])).sum() == 66
        # Two frames share a token, and the last of an odd number is doubled.
        assert made.of(4, "video_grid_thw")[0, 0] == 3 and made.of(5, "video_grid_thw")[0, 0] == 3
    else:
        (_, rows, columns), *_ = made.of(0, "image_grid_thw").tolist()
        assert (rows, columns) == (480 // 16, 640 // 16)
        assert (made.of(0, "input_ids") == 120120).sum() == (480 // 32) * (640 // 32 + 1) + 2


def test_a_server_answers_with_transformers_greedy_tokens(made: Made, served: str):
    for index, (name, one) in enumerate(made.conversations.items()):
        document = one.body(ENTRIES[made.family], max_tokens=NEW_TOKENS, return_token_ids=True)
        if name == "no image" and made.family == "hunyuan_vl":  # an OCR model's server wants one; Qwen2-VL chats
            answer = send(served, document)
            assert answer.status_code == 400 and "messages: no image" in answer.text
            continue
        check_greedy(made, served, index, document)


PICTURE = encode(Image.new("RGB", (60, 60), "red"))
TEXT = text_part("x")
THIN = encode(Image.new("RGB", (8100, 40)))
# name -> (parts, words of the refusal, or None for an answer), for every family
REQUESTS: dict[str, tuple[list[dict[str, Any]], str | None]] = {
    "the seed's part": ([{"type": "image", "image_url": image_part(PICTURE)["image_url"]}, TEXT], None),
    "the seed's part with a bare address": (
        [{"type": "image", "image_url": image_part(PICTURE)["image_url"]["url"]}, TEXT],
        None,
    ),
    "one pixel": ([image_part(encode(Image.new("RGB", (1, 1)))), TEXT], None),
    "aspect ratio": ([image_part(THIN), TEXT], "image 1 of 1: absolute aspect ratio must be smaller than 200"),
    "too many images": ([*[image_part(PICTURE)] * 9, TEXT], "image(s) may be provided"),
    "address": ([image_part("http://127.0.0.1:9/a.png"), TEXT], "opens no URLs"),
    "nothing in it": ([{"type": "image_url", "image_url": None, "uuid": "a"}, TEXT], "null is not accepted"),
    "no address in it": ([{"type": "image", "image_url": {"url": None}, "uuid": "a"}, TEXT], "null is not accepted"),
    "cut off": ([image_part(PICTURE[: len(PICTURE) // 2]), TEXT], "cut off or damaged"),
}
RESERVED = {"qwen2_vl": ("<|image_pad|>", "<|video_pad|>"), "hunyuan_vl": ("<｜hy_place▁holder▁no▁100｜>",)}
OPTIONS = {
    "enormous max_pixels are cut": ({"max_pixels": 10**9}, None),
    "least above the bound": ({"min_pixels": 10**9}, "mm_processor_kwargs.min_pixels: 1000000000 is more than"),
    "another key": ({"patch_size": 7}, "patch_size: is not accepted"),
}


def expect(served: str, family: str, name: str, parts: list[dict[str, Any]], words: str | None, **options: Any) -> None:
    messages = [{"role": "user", "content": parts}]
    document = {"model": ENTRIES[family], "messages": messages, "max_tokens": 2, "temperature": 0, **options}
    answer = send(served, document)
    if words is None:
        assert answer.status_code == 200, f"{name}: {answer.text[:500]}"
    else:
        assert answer.status_code == 400 and words in answer.json()["error"]["message"], f"{name}: {answer.text[:500]}"


def test_a_right_answer_or_a_400_and_the_next_request_is_served(made: Made, served: str):
    for name, (parts, words) in REQUESTS.items():
        expect(served, made.family, name, parts, words)
    for token in RESERVED[made.family]:
        expect(served, made.family, token, [image_part(PICTURE), text_part(token)], "which is reserved")
    # Nothing counts the places of a request without media, and these joined ended the engine.
    pieces = [
        text_part(one) for token in ("<|vision_start|>", RESERVED[made.family][0]) for one in (token[:9], token[9:])
    ]
    words = "which is reserved" if made.family == "qwen2_vl" else "no image"
    expect(served, made.family, "a token in pieces", pieces, words)
    for name, (pixels, words) in OPTIONS.items():
        expect(served, made.family, name, [image_part(PICTURE), TEXT], words, mm_processor_kwargs=pixels)
    tiny = send(served, tiny_request(ENTRIES[made.family]))
    assert tiny.status_code == 200 and tiny.json()["usage"]["prompt_tokens"] < 128, tiny.text[:500]
    words = "messages: a list of 0 is not accepted; expected a list of 1 to 64"
    expect(served, made.family, "no messages", [], words, messages=[])
    expect(served, made.family, "the next", [image_part(PICTURE), TEXT], None)


def test_videos_are_answered_or_refused_in_words(made: Made, served: str, tmp_path: Path):
    file = clip(tmp_path, 50, 25)
    if made.family != "qwen2_vl":
        expect(served, made.family, "no video", [video_part(PICTURE), TEXT], "At most 0 video(s) may be provided")
        return
    requests = {
        "a file": (video_part(file, kind="mp4"), None),
        "one frame": (video_part(PICTURE), None),
        "a file that is cut off": (video_part(file[: len(file) // 2], kind="mp4"), "cut off or damaged"),
        "no video": (video_part(b"hello world" * 9, kind="mp4"), "format is not known"),
        "too many frames": (video_part(*[PICTURE] * 129), "129 frames; expected 1 to 128"),
        "frames of two sizes": (video_part(PICTURE, encode(Image.new("RGB", (90, 60)))), "expected one size"),
        "aspect ratio": (video_part(THIN), "video 1 of 1: absolute aspect ratio"),
    }
    for name, (part, words) in requests.items():
        expect(served, made.family, name, [part, TEXT], words)
    expect(served, made.family, "two", [video_part(PICTURE)] * 2, "At most 1 video(s)")
    expect(served, made.family, "the next", [image_part(PICTURE), TEXT], None)


def test_generated_bad_requests(checkpoint: Checkpoint, served: str):
    check_generated(served, checkpoint.path.name)


@pytest.fixture
def parser(checkpoint: Checkpoint, served: str, tmp_path: Path) -> Iterator[ParserProcess]:
    """A parser that reads with the server, and has no layout model."""
    if not python_of("parser").exists():
        pytest.skip("the environment parser is not there")
    settings = {"VLM_URL": f"{served}/v1", "VLM_MODEL": checkpoint.path.name, "MODELS_DIR": str(checkpoint.folder)}
    with running_service(tmp_path, **settings) as running:
        yield running


def test_the_parser_reads_whole_pages_with_it(checkpoint: Checkpoint, parser: ParserProcess):
    """Random weights answer with noise, so every answer is cut at its length; all steps are real."""
    page = base64.b64encode((DATA / "report.png").read_bytes()).decode()
    tasks = OF_FAMILY[checkpoint.family]
    for task in sorted(tasks.keys() & {"document", "spotting"}):
        result = parser.parse(page, promptLabel=task, maxNewTokens=NEW_TOKENS, visualize=False).json()["result"]
        told, (read,) = result["docparser"], result["layoutParsingResults"]
        assert told["models"]["vlm"]["model"] == checkpoint.path.name and told["models"]["vlm"]["wholePages"]
        assert {note["kind"] for note in told["pages"][0]["blocks"]} <= {"length", "place"}
        assert read["prunedResult"]["model_settings"]["prompt_label"] == task
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{page}"}}
    body = {"model": checkpoint.path.name, "messages": [{"role": "user", "content": [image]}]}
    answer = parser.client.post("/v1/chat/completions", json={**body, "options": {"maxNewTokens": NEW_TOKENS}}).json()
    used = answer["usage"]
    assert used["prompt_tokens"] > 1000, "the tokens of a page"
    assert 1 <= used["completion_tokens"] <= NEW_TOKENS, "noise, of which some is no text"
    refused = parser.parse(page, minPixels=90_000_000)
    assert refused.status_code == 422 and "is more than max_pixels" in refused.text, "the server's words"
