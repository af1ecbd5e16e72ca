# SPDX-License-Identifier: Apache-2.0
"""Answers of the VLM server: streams in pieces, whole completions, errors, and the guard against repetitions."""

from __future__ import annotations

from docparser.vlm.repetition import PAGE, TABLE, TEXT, cut_repetition, repeated_tail
from docparser.vlm.reply import NotACompletion, Stream, error_text, from_json
from tests.fuzz.choices import Choices, dumped
from tests.fuzz.verdict import Broken

WORDS = ("data: ", "event: ", ": ", "[DONE]", "\n", "\n\n", '{"choices": []}', "<fcel>", "<nl>", ". . . ", "\\ud83d")
KEYS = ("choices", "delta", "content", "message", "finish_reason", "error", "usage", "id", "index")


def target(data: bytes) -> None:
    choices = Choices(data)
    kind = choices.below(4)
    if kind == 0:
        stream(choices.rest(), [1 + choices.byte()])
    elif kind == 1:
        events = b"".join(b"data: " + event(choices) + b"\n\n" for _ in range(choices.below(8)))
        stream(events, [1 + choices.byte() for _ in range(4)])
    elif kind == 2:
        body = event(choices) if choices.chance(2) else choices.rest()
        try:
            text, reason, _, confidence = from_json(body)
            if not isinstance(text, str) or not isinstance(reason, str | None):
                raise Broken("a completion is a text and why it ended")
            share(confidence)
        except NotACompletion:
            pass
        if not isinstance(error_text(body), str):
            raise Broken("the message of an error is a text")
    else:
        repetition(choices.text(WORDS))


def event(choices: Choices) -> bytes:
    """An event as it should be, with one part that may be anything."""
    content = choices.text(WORDS, longest=4000)
    delta = {"content": content}
    value: object = {"choices": [{"index": 0, "delta": delta, "message": delta, "finish_reason": None}]}
    odd = choices.value(WORDS)
    match choices.below(8):
        case 0:
            value = odd
        case 1:
            value = {"choices": odd}
        case 2:
            value = {"choices": [odd]}
        case 3:
            value = {"choices": [{"delta": odd, "message": odd}]}
        case 4:
            value = {"choices": [{"delta": {"content": odd}, "message": {"content": odd}, "finish_reason": odd}]}
        case 5:
            value = {"choices": [{"delta": delta, "message": delta, "finish_reason": odd}], choices.one(KEYS): odd}
        case 6:
            told = choices.one(
                [odd, {"content": odd}, {"content": [odd, {"logprob": -0.5}]}, {"content": [{"logprob": odd}]}]
            )
            value = {"choices": [{"delta": delta, "message": delta, "logprobs": told}]}
    return dumped(value)


def share(confidence: float | None) -> None:
    if not (confidence is None or 0 <= confidence <= 1):
        raise Broken("a confidence is from 0 to 1, or there is none")


def stream(data: bytes, sizes: list[int]) -> None:
    """However the network cuts the bytes, the text is the same."""
    whole, pieces = Stream(), Stream()
    try:
        whole.feed(data)
    except NotACompletion:
        return
    at, number = 0, 0
    while at < len(data):
        size = sizes[number % len(sizes)]
        pieces.feed(data[at : at + size])
        at, number = at + size, number + 1
    if (whole.text, whole.finish_reason, whole.done) != (pieces.text, pieces.finish_reason, pieces.done):
        raise Broken("a stream reads the same in pieces")
    if not isinstance(whole.finish_reason, str | None) or not isinstance(whole.text, str):
        raise Broken("a stream gives a text and why it ended")
    share(whole.probabilities.confidence)
    if whole.probabilities.confidence != pieces.probabilities.confidence:
        raise Broken("a stream is as sure in pieces")


def repetition(text: str) -> None:
    for guard in (TEXT, TABLE, PAGE):
        period = repeated_tail(text, guard)
        if not period:
            continue
        cut = cut_repetition(text, period)
        if not text.startswith(cut) or len(cut) < period or text[-period:] != cut[-period:]:
            raise Broken("a cut text is the beginning of the text, with the piece once")


def seeds() -> list[bytes]:
    good = (
        b'{"choices": [{"index": 0, "delta": {"content": "a"}, "message": {"content": "a"}, "finish_reason": "stop"}]}'
    )
    return [
        b"\0data: " + good + b"\n\ndata: [DONE]\n\n",
        b"\0: comment\nevent: x\nid: 1\n",
        b'\0data: {"error": {"message": "x"}}\n\n',
        b"\2\1" + good,
        b"\1" + bytes(range(60)),
        b"\3" + bytes(range(60)),
    ]
