# SPDX-License-Identifier: Apache-2.0
"""Every field of a chat request: the values that pass, and those that vLLM would coerce or compute for ever."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.plugin.chat import body, image_part
from tests.plugin.gate import BOMB, ask
from vlm_models import fields

# What clients send: every field with a value that is accepted, the ends of each bound among them.
ACCEPTED: dict[str, list[Any]] = {
    "model": ["PaddleOCR-VL-0.9B"],
    "messages": [[{**body(image_part(BOMB))["messages"][0], "name": "a"}]],
    "stream": [True, False],
    "stream_options": [{"include_usage": True}, {}],
    "user": ["å"],
    "request_id": ["r-1"],
    "max_tokens": [1, 4096],
    "max_completion_tokens": [1, 4096],
    "n": [1, 8],
    "seed": [0, -1, 2**63 - 1],
    "stop": ["a", ["a", "b"], []],
    "temperature": [0, 0.0, 2],
    "top_p": [1, 0.001],
    "top_k": [-1, 0, 50],
    "min_p": [0, 1.0],
    "repetition_penalty": [1, 1.05, 0.1],
    "presence_penalty": [-2, 2.0],
    "frequency_penalty": [-2, 2.0],
    "logprobs": [True],
    "top_logprobs": [0, 20],
    "skip_special_tokens": [True],
    "spaces_between_special_tokens": [False],
    "return_token_ids": [True],
    "return_tokens_as_token_ids": [True],
    "mm_processor_kwargs": [{"min_pixels": 112896, "max_pixels": 1003520}, {}],
}


@pytest.mark.parametrize("field", sorted(fields.REQUEST.keys))
def test_what_clients_send_passes(field: str):
    for value in (*ACCEPTED[field], None):
        sent = json.dumps({field: value}).encode()
        exchange, (arrived,) = ask(sent)
        # An id gets an end of its own: test_middleware.
        same = json.loads(arrived)[field].startswith(value) if field == "request_id" and value else arrived == sent
        assert exchange.status == 200 and same, (field, value)


class Json(str):
    """JSON as it is written, for what Python's writer does not write."""


DEEP = Json('{"a":' * 400 + "1" + "}" * 400)
# field -> values that are refused: strings and fractions that vLLM would coerce, numbers out of bounds, other types.
REFUSED: dict[str, list[Any]] = {
    **{name: [1, "true", [], {}] for name, kind in fields.REQUEST.keys.items() if isinstance(kind, fields.Flag)},
    **{
        name: ["1", 1.0, 1e9, Json("1e999"), True, [1], {}, kind.least - 1, kind.most + 1]
        for name, kind in fields.REQUEST.keys.items()
        if isinstance(kind, fields.Whole)
    },
    **{
        name: [
            "1",
            Json("1e999"),
            Json("-1e999"),
            1e308,
            -1e308,
            10**400,
            True,
            [1],
            {},
            kind.least - 0.1,
            kind.most + 0.1,
        ]
        for name, kind in fields.REQUEST.keys.items()
        if isinstance(kind, fields.Number)
    },
    **{
        name: [1, [], {}, "x" * 1000, "\ud800"]
        for name, kind in fields.REQUEST.keys.items()
        if isinstance(kind, fields.Text)
    },
    "stop": [1, [1], [["a"]], ["a"] * 17, "a" * 1000, {"a": 1}, DEEP],
    "stream_options": [[], "x", {"include_usage": 1}, {"other": 1}, DEEP],
    "mm_processor_kwargs": [[], {"max_pixels": "12"}, {"patch_size": 7}, {"max_pixels_bound": 10**9}, DEEP],
    "messages": [
        "x",
        [],
        {},
        [[]],
        ["x"],
        [{"role": "user", "content": ""}] * 65,
        [{"role": 1}],
        [{"role": "user", "content": 1}],
        [{"role": "user", "content": [1]}],
        [{"role": "user", "content": ["a"] * 65}],
        [{"role": "user", "content": "\ud800"}],
        [{"role": "user", "content": [{"type": "text", "text": 1}]}],
        [{"role": "user", "content": [{"type": "text", "text": DEEP}]}],
        [{"role": "user", "content": [{"type": "image_url", "image_url": []}]}],
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": {}}}]}],
        [{"role": "user", "content": [{"type": "video_url", "video_url": {"url": []}}]}],
        [{"role": "user", "content": [{"type": "audio_url", "audio_url": {"url": "data:,"}}]}],
        [{"role": "user", "content": "x" * (fields.MAX_WORDS_BYTES + 1)}],
    ],
}


def written(value: Any) -> str:
    if isinstance(value, Json):
        return value
    if isinstance(value, list):
        return "[" + ",".join(map(written, value)) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{written(one)}" for key, one in value.items()) + "}"
    return json.dumps(value)


@pytest.mark.parametrize("field", sorted(fields.REQUEST.keys))
def test_what_vllm_would_coerce_or_compute_for_ever_is_refused(field: str):
    for value in REFUSED[field]:
        exchange, arrived = ask(written({field: value}).encode())
        assert exchange.status == 400 and not arrived, (field, value)
        assert field in exchange.message or "without its images" in exchange.message, exchange.message
        assert "expected" in exchange.message or "known are" in exchange.message, exchange.message
        assert len(exchange.message) < 800


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (b'{"n": "1000"}', "n: '1000' is not accepted; expected a whole number from 1 to 8"),
        (b'{"n": 1000}', "n: 1000 is not accepted; expected a whole number from 1 to 8"),
        (b'{"n": 1000.0}', "n: 1000.0 is not accepted; expected a whole number from 1 to 8"),
        (b'{"temperature": 1e999}', "temperature: inf is not accepted; expected a number from 0 to 2"),
        (b'{"temperature": NaN}', "NaN is no number of JSON"),
        (b'{"top_logprobs": {}}', "top_logprobs: an object of 0 is not accepted; expected a whole number from 0 to 20"),
        (b'{"logit_bias": {"1": 100}}', "logit_bias: is not accepted by this server; known are frequency_penalty"),
        # Stops vLLM 0.11.1's engine where it is let in.
        (b'{"structured_outputs": {"regex": "(a{1,1000}){1,1000}"}}', "structured_outputs: is not accepted"),
        (b'{"response_format": {"type": "json_object"}}', "response_format: is not accepted"),
        (b'{"truncate_prompt_tokens": 8}', "truncate_prompt_tokens: is not accepted"),
        (b'{"chat_template": "x"}', "chat_template: is not accepted"),
        (b'{"mm_processor_kwargs": {"min_pixels": "12"}}', "mm_processor_kwargs.min_pixels: '12' is not accepted"),
        (b'{"mm_processor_kwargs": {"max_pixels_bound": 9}}', "mm_processor_kwargs.max_pixels_bound: is not accepted"),
        (b'{"best_of": 9}', "best_of: is not accepted"),
        (b'{"prompt_logprobs": 9}', "prompt_logprobs: is not accepted"),
        (b'{"\\ud800": 1}', "\\ud800: is not accepted"),
        (b'{"mm_processor_kwargs": {"\\ud800": null}}', "mm_processor_kwargs.\\ud800: is not accepted"),
        (b"[]", "the body is a list of 0; expected a JSON object with frequency_penalty"),
        (b"1", "the body is 1; expected a JSON object"),
        (b"null", "the body is null; expected a JSON object"),
        (b"{", "the body is no JSON"),
        (b"\xff", "the body is no JSON"),
        (b'{"seed": 1' + b"0" * 5000 + b"}", "the body is no JSON"),
        (b"[" * 60_000, "the body is nested too deeply"),
        (b"[" + b"[]," * 100_000 + b"[]]", "commas and brackets; expected at most 65536"),
    ],
    ids=lambda value: ascii(value[:40]),
)
def test_refusals_name_key_value_and_expectation(sent: bytes, words: str):
    exchange, arrived = ask(sent)
    assert exchange.status == 400 and words in exchange.message and not arrived
