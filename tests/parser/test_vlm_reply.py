# SPDX-License-Identifier: Apache-2.0
"""Completions in every form that a server may send them, whole or in pieces of any size."""

from __future__ import annotations

import json

import pytest

from docparser.vlm.reply import NotACompletion, Stream, error_text, from_json


def sse(*deltas: dict, finish: str | None = "stop", done: bool = True) -> bytes:
    events: list[dict] = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    if finish:
        events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    lines = [f"data: {json.dumps(event, ensure_ascii=False)}\n\n" for event in events]
    return "".join([*lines, "data: [DONE]\n\n" if done else ""]).encode()


WHOLE = sse({"role": "assistant", "content": ""}, {"content": "Größe: "}, {"content": "5 µm 表"}, {"content": None})


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50, 10_000])
def test_pieces_of_any_size_give_the_same_text(size):
    stream = Stream()
    for start in range(0, len(WHOLE), size):
        stream.feed(WHOLE[start : start + size])
    assert (stream.text, stream.finish_reason, stream.complete) == ("Größe: 5 µm 表", "stop", True)


def test_comments_usage_and_other_line_ends_are_no_trouble():
    stream = Stream()
    stream.feed(b": ping\r\n\r\nevent: message\r\nid: 7\r\n")
    stream.feed(WHOLE.replace(b"\n", b"\r\n"))
    stream.feed(b'data: {"choices": [], "usage": {"total_tokens": 9}}\n\n')
    assert stream.text.startswith("Größe")


def test_tokens_are_those_that_the_server_counted_last():
    stream = Stream()
    stream.feed(sse({"content": "a"}, {"content": "b"}, finish=None, done=False))
    assert stream.tokens == (0, 2), "of a server that never says: one in each event"
    for count in (20, 40):
        usage = {"prompt_tokens": 300, "completion_tokens": count, "total_tokens": 300 + count}
        stream.feed(f'data: {{"choices": [], "usage": {json.dumps(usage)}}}\n\n'.encode())
        assert stream.tokens == (300, count)
    for odd in ('"x"', "5", "{}", '{"prompt_tokens": -1, "completion_tokens": 1}', '{"prompt_tokens": 1.5}', "null"):
        stream.feed(f'data: {{"choices": [], "usage": {odd}}}\n\n'.encode())
    assert stream.tokens == (300, 40)


def test_a_stream_that_breaks_off_is_not_complete():
    stream = Stream()
    stream.feed(sse({"content": "half"}, finish=None, done=False))
    assert stream.text == "half" and not stream.complete


@pytest.mark.parametrize(
    "data",
    [
        b"<html>\n",
        b"data: {not json}\n",
        b"data: 5\n",
        b'data: {"choices": [5]}\n',
        b'data: {"choices": [{"delta": 5}]}\n',
        b'data: {"error": {"message": "engine dead"}}\n',
        b"x" * (2 << 20),
    ],
)
def test_what_is_no_event_stream_is_named(data):
    with pytest.raises(NotACompletion):
        Stream().feed(data)


def test_one_json_object():
    choice = {"message": {"content": "text"}, "finish_reason": "length", "logprobs": {"content": [{"logprob": 0.0}]}}
    answer = {"choices": [choice], "usage": {"prompt_tokens": 3, "completion_tokens": 4}}
    assert from_json(json.dumps(answer).encode()) == ("text", "length", (3, 4), 1.0)
    assert from_json(b'{"choices": [{"message": {"content": null}}]}') == ("", None, (0, 0), None)


@pytest.mark.parametrize(
    "body", [b"", b"null", b"{}", b'{"choices": []}', b"[1]", b'{"choices": [{"message": {"content": 5}}]}', b"\xff"]
)
def test_json_that_is_no_completion(body):
    with pytest.raises(NotACompletion):
        from_json(body)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"error": {"message": "too long"}}', "too long"),
        (b'{"message": "older form"}', "older form"),
        (b'{"error": "short form"}', "short form"),
        (b"<html>Bad gateway</html>", "Bad gateway"),
        (b"<p>Bad gateway <![{", "Bad gateway"),  # html.parser asserts that this is a declaration
        (b"<style>p {}</style><h1>503</h1>\n<p>No server\nis available.</p>", "503 No server is available."),
        (b"", "no reason given"),
        (b"[]", "[]"),
    ],
)
def test_the_words_of_an_error(body, words):
    assert error_text(body) == words


DEEP = b"[" * 100_000


@pytest.mark.parametrize(
    "choice",
    [DEEP.decode(), '{"delta": {"content": "x"}, "message": {"content": "x"}, "finish_reason": ["stop"]}'],
    ids=["nested", "finish_reason"],
)
def test_what_a_lying_server_sends_is_no_completion(choice):
    """Found by tests/fuzz: a RecursionError failed the page, and any JSON value was taken for the reason."""
    body = f'{{"choices": [{choice}]}}'.encode()
    with pytest.raises(NotACompletion):
        Stream().feed(b"data: " + body + b"\n\n")
    with pytest.raises(NotACompletion):
        from_json(body)
    assert error_text(DEEP)


def test_characters_that_no_document_holds_are_replaced():
    """Found by tests/fuzz: half of a surrogate pair, or a NUL, failed the page's DOCX, HTML and ZIP."""
    told = "a\0b\x1bc\ud83dd\ufffee\tf\ng 😀"
    message = {"choices": [{"delta": {"content": told}, "message": {"content": told}, "finish_reason": "stop"}]}
    stream = Stream()
    stream.feed(b"data: " + json.dumps(message).encode() + b"\n\n")
    assert stream.text == from_json(json.dumps(message).encode()).text == "a\ufffdb\ufffdc\ufffdd\ufffde\tf\ng 😀"
