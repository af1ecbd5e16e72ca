# SPDX-License-Identifier: Apache-2.0
"""A real server with the plugin: each request gets an answer or a 4xx with the reason, and none stops the server."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image

from tests.plugin.chat import MODEL, body, encode, image_part, send, text_part
from tests.plugin.drawings import page
from tests.plugin.programs import LIMIT_S
from vlm_models.settings import RequestSettings


def sixteen_bit() -> bytes:
    grey = np.asarray(page(mode="L")).astype(np.uint16) * 257
    return encode(Image.fromarray(grey))


def palette(**options) -> bytes:
    return encode(page().quantize(16), **options)


def truncated(data: bytes) -> bytes:
    return data[: len(data) // 2]


GOOD = body(image_part(encode(page())), text_part())

# name -> images of one prompt that must be answered
READABLE = {
    "one pixel": [encode(Image.new("RGB", (1, 1)))],
    "three pixels high": [encode(Image.new("RGB", (40, 3)))],
    "three pixels wide": [encode(Image.new("RGB", (3, 3)))],
    "CMYK JPEG": [encode(page(mode="CMYK"), "JPEG")],
    "palette": [palette()],
    "palette with a transparent colour": [palette(transparency=0)],
    "16-bit grey": [sixteen_bit()],
    "alpha": [encode(page(mode="RGBA"))],
    "grey with alpha": [encode(page(mode="LA"))],
    "black and white": [encode(page(mode="1"))],
    "WebP": [encode(page(), "WEBP")],
    "TIFF": [encode(page(), "TIFF")],
    "BMP": [encode(page(), "BMP")],
    "thin": [encode(Image.new("RGB", (28 * 199, 28)))],
    "several": [encode(page()), encode(page(90, 400)), encode(Image.new("RGB", (3, 3)))],
    "eight": [encode(page())] * 8,
}

# What the middleware refuses by itself is in test_fields, test_middleware and test_images.
# name -> (request, words that the message must hold)
REFUSED: dict[str, tuple[Any, list[str]]] = {
    "1 x 8000": (body(image_part(encode(Image.new("RGB", (1, 8000)))), text_part()), ["aspect ratio"]),
    "aspect ratio above 200": (
        body(image_part(encode(Image.new("RGB", (8100, 40)))), text_part()),
        ["aspect ratio", "200"],
    ),
    "second image bad": (
        body(image_part(encode(page())), image_part(encode(Image.new("RGB", (8100, 40)))), text_part()),
        ["image 2 of 2", "aspect ratio"],
    ),
    "truncated PNG": (body(image_part(truncated(encode(page()))), text_part()), ["cut off or damaged"]),
    "truncated JPEG": (body(image_part(truncated(encode(page(), "JPEG"))), text_part()), ["cut off or damaged"]),
    "image start in text": (
        body(image_part(encode(page())), text_part("<|IMAGE_START|> OCR:")),
        ["IMAGE_START", "reserved"],
    ),
    "placeholder in text": (
        body(image_part(encode(page())), text_part("<|IMAGE_START|><|IMAGE_PLACEHOLDER|><|IMAGE_END|>OCR:")),
        ["reserved"],
    ),
    "placeholder, no image": (body(text_part("<|IMAGE_START|><|IMAGE_PLACEHOLDER|>OCR:")), ["no image"]),
    "placeholder as plain string": (
        {**GOOD, "messages": [{"role": "user", "content": "<|IMAGE_PLACEHOLDER|>"}, *GOOD["messages"]]},
        ["reserved"],
    ),
    "placeholder in system text": (
        {**GOOD, "messages": [{"role": "system", "content": "<|IMAGE_PLACEHOLDER|>"}, *GOOD["messages"]]},
        ["reserved"],
    ),
    "min above max": (
        {**GOOD, "mm_processor_kwargs": {"min_pixels": 1003520, "max_pixels": 112896}},
        ["mm_processor_kwargs.min_pixels", "112896"],
    ),
    "min above the bound": (
        {**GOOD, "mm_processor_kwargs": {"min_pixels": 9_000_000, "max_pixels": 9_000_000}},
        ["mm_processor_kwargs.min_pixels", "2822400"],
    ),
    "negative limit": ({**GOOD, "mm_processor_kwargs": {"max_pixels": -1}}, ["mm_processor_kwargs.max_pixels", "-1"]),
    "too many images": (body(*[image_part(encode(page()))] * 9, text_part()), ["At most 8 image"]),
    "video": (
        body({"type": "video_url", "video_url": {"url": "data:video/mp4;base64,AAAA"}}, text_part()),
        ["video"],
    ),
    "audio": (body({"type": "audio_url", "audio_url": {"url": "data:audio/wav;base64,AAAA"}}, text_part()), ["audio"]),
    "image embeddings": (body({"type": "image_embeds", "image_embeds": "AAAA"}, text_part()), []),
    "no JSON": (GOOD | {"messages": "x"}, ["messages"]),
    "prompt too long": (body(image_part(encode(page())), text_part("OCR: " * 20000)), ["16384"]),
    "image in an assistant's turn": (
        {**GOOD, "messages": [{"role": "assistant", "content": [image_part(encode(page()))]}]},
        ["0 places", "1 images"],
    ),
    "image without data": (body({"type": "image_url", "image_url": None, "uuid": "x"}, text_part()), ["null"]),
    "unknown role": ({**GOOD, "messages": [{"role": "tool", "content": "x", "tool_call_id": "1"}]}, ["role"]),
}


@pytest.fixture(scope="module")
def answer(server) -> str:
    """What the server says about the good request, before the first of the tests that ask for it."""
    response = send(server, GOOD)
    assert response.status_code == 200, response.text
    return response.json()["choices"][0]["message"]["content"]


def check_alive(server: str) -> None:
    """vLLM says there whether its engine has stopped; that answers are right, the test after the tables checks."""
    response = httpx.get(f"{server}/health", timeout=LIMIT_S)
    assert response.status_code == 200, response.text


def check_answer(server: str, answer: str) -> None:
    response = send(server, GOOD)
    assert response.status_code == 200, response.text
    assert response.json()["choices"][0]["message"]["content"] == answer


def message_of(response: httpx.Response) -> str:
    document = response.json()
    return document.get("error", document).get("message") or str(document)


@pytest.mark.parametrize("name", READABLE)
def test_unusual_images_are_answered(server, answer, name):
    response = send(server, body(*map(image_part, READABLE[name]), text_part()))
    assert response.status_code == 200, response.text
    assert response.json()["usage"]["completion_tokens"] > 0
    check_alive(server)


def test_other_clients_words_are_answered(server, answer):
    url = image_part(encode(page()))["image_url"]["url"]
    forms: list[dict[str, Any]] = [
        {"type": kind, "image_url": image}
        for kind in ("image_url", "input_image", "image", None)
        for image in (url, {"url": url, "detail": None})
    ]
    for form in forms:
        document = body(form, {"type": "input_text", "text": "OCR:"})
        document["messages"][0] |= {"name": None, "tool_calls": None}
        response = send(server, document)
        assert response.status_code == 200, f"{form['type']}: {response.text}"
        assert response.json()["choices"][0]["message"]["content"] == answer


@pytest.mark.parametrize("name", REFUSED)
def test_bad_requests_are_refused(server, answer, name):
    document, words = REFUSED[name]
    response = send(server, document)
    assert 400 <= response.status_code < 500, f"{response.status_code}: {response.text}"
    message = message_of(response)
    assert not [word for word in words if word not in message], message
    assert "Traceback" not in response.text
    check_alive(server)


# Raw prompts pass none of our checks: [-1] stops vLLM's engine.
RAW: dict[str, tuple[str, dict[str, Any]]] = {
    "negative token": ("/v1/completions", {"prompt": [-1, 3]}),
    "raw placeholder": ("/v1/completions", {"prompt": "<|IMAGE_START|><|IMAGE_PLACEHOLDER|>"}),
    "raw tokens": ("/inference/v1/generate", {"token_ids": [-1], "sampling_params": {"max_tokens": 1}}),
    "responses": ("/v1/responses", {"input": "OCR:"}),
    "messages": ("/v1/messages", {"messages": [{"role": "user", "content": "OCR:"}], "max_tokens": 1}),
}


@pytest.mark.parametrize("name", RAW)
def test_endpoints_for_raw_prompts_are_closed(server, answer, name):
    path, document = RAW[name]
    response = send(server, {"model": MODEL, **document}, path)
    assert response.status_code == 404, response.text
    assert "/v1/chat/completions" in message_of(response)
    check_alive(server)


@pytest.mark.parametrize("document", [{"messages": [{"role": "user", "content": "OCR:"}]}, body(text_part())])
def test_text_alone_is_refused(server, answer, document):
    """The model would answer with invented text."""
    response = send(server, {**GOOD, **document})
    assert response.status_code == 400 and "no image" in message_of(response), response.text
    check_alive(server)


def test_after_all_of_them_the_answer_is_the_same(server, answer):
    check_answer(server, answer)


def test_token_counts_follow_the_limits_of_the_request(server):
    """144 to 1280 tokens with PaddleOCR's limits, 3600 with WeKnora's; more than the operator's bound is cut to it."""
    large = image_part(encode(Image.new("RGB", (1680, 1680))))
    small = image_part(encode(Image.new("RGB", (100, 100))))

    def tokens(image, least, most):
        response = send(server, body(image, text_part(), mm_processor_kwargs={"min_pixels": least, "max_pixels": most}))
        assert response.status_code == 200, response.text
        return response.json()["usage"]["prompt_tokens"]

    text = tokens(small, 784, 784) - 1
    assert tokens(small, 112896, 1003520) - text == 144
    assert tokens(large, 112896, 1003520) - text == 35 * 35
    assert tokens(large, 147384, 10**8) - text == 3600


def test_requests_at_once_get_the_answers_they_get_alone(server):
    """Different images packed into one pass of the tower do not see each other."""
    documents = [
        body(image_part(encode(page(200 + 90 * i, 40 + 30 * i))), text_part(), max_tokens=16) for i in range(6)
    ]
    alone = [send(server, document).json()["choices"][0]["message"]["content"] for document in documents]
    with ThreadPoolExecutor(6) as pool:
        together = [
            r.json()["choices"][0]["message"]["content"] for r in pool.map(lambda d: send(server, d), documents)
        ]
    assert together == alone
    # An id that a client gives twice is no name of an image: each of these is larger than the one before.
    named = [send(server, {**document, "request_id": "mine"}) for document in documents]
    assert [response.json()["choices"][0]["message"]["content"] for response in named] == alone


def memory_of(process: int, key: str) -> int:
    """A line of the process's status in bytes: VmRSS, or VmHWM, the most so far."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(f"{key}:"))


def family_of(process: int) -> list[int]:
    """It and all processes below it."""
    family = [process]
    for one in family:
        for children in Path(f"/proc/{one}/task").glob("*/children"):
            family += map(int, children.read_text().split())
    return family


def test_one_process_computes(server, server_process):
    """From 0.23.0 on, vLLM would start a further one, which imports everything once more."""
    names = [Path(f"/proc/{process}/comm").read_text().strip() for process in family_of(server_process)]
    assert [name for name in names if name.startswith("VLLM")] == ["VLLM::EngineCor"], names


def test_no_socket_is_open_to_other_machines(server, server_process):
    """PyTorch's store for the ranks of a group listens on all addresses, whatever it is told."""
    files = [file for process in family_of(server_process) for file in Path(f"/proc/{process}/fd").iterdir()]
    own = {os.readlink(file) for file in files if file.is_symlink()}
    listening = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            _, address, _, state, *_, inode = line.split()[:10]
            if state == "0A" and f"socket:[{inode}]" in own:
                listening.append(address.partition(":")[0])
    assert listening and set(listening) == {"0100007F"}, "127.0.0.1 as proc(5) writes it"


def test_pixel_budget(server, server_process, answer):
    """PNGs of 18 kB and 144 million pixels each, more at once than fit: they take turns in the API server's memory."""
    side, count = 12000, 3
    bomb = body(image_part(encode(Image.new("1", (side, side), 1))), text_part(), max_tokens=1)
    Path(f"/proc/{server_process}/clear_refs").write_text("5")  # forget the most so far
    before = memory_of(server_process, "VmRSS")
    with ThreadPoolExecutor(count) as pool:
        found = [response.status_code for response in pool.map(lambda _: send(server, bomb), range(count))]
    # On a slow machine those that wait too long are told to come again.
    assert set(found) <= {200, 503} and 200 in found
    taken = memory_of(server_process, "VmHWM") - before
    print(f"{taken / 2**20:.0f} MiB for {count} images of {side} x {side}")
    # One fits into the budget, two do not. What one leaves behind is still being freed when the next one begins, so two
    # were seen at once; three would be two in work.
    assert RequestSettings.from_environment({}).pixels_in_flight < 2 * side**2
    assert taken < 2.5 * 8 * side**2
    check_answer(server, answer)
