# SPDX-License-Identifier: Apache-2.0
"""How sure the VLM was of each block: asked for, computed, told, joined; and a server that does not say it."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from docparser.page.provenance import Certainty, Provenance, add_members
from docparser.vlm.client import Reply
from docparser.vlm.failures import BlockNote
from docparser.vlm.reply import ASKED, Stream, from_json
from tests.support import samples
from tests.support.simulated_vlm import default_answer, prompt_of

PAGES = ((595, 842), (595, 842))
TABLE = "Table Recognition:"


def told(*logs: object) -> dict:
    return {"content": [{"token": "a", "logprob": log, "bytes": [97], "top_logprobs": []} for log in logs]}


def both_ways(*parts: object) -> list[float | None]:
    """The confidence of a completion whose ``logprobs`` are ``parts``: streamed part by part, and in one piece where
    there is one part."""
    stream = Stream()
    for part in parts:
        choice = {"delta": {"content": "text"}, "logprobs": part}
        stream.feed(b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n")
    assert stream.text == "text" * len(parts), "whatever is wrong with them, the text is there"
    whole = {"choices": [{"message": {"content": "text"}, "logprobs": parts[0]}]}
    return [stream.probabilities.confidence] + [from_json(json.dumps(whole).encode()).confidence] * (len(parts) == 1)


def test_it_is_the_geometric_mean_of_the_tokens_probabilities():
    assert both_ways(told(math.log(0.5), math.log(0.125))) == pytest.approx([0.25, 0.25])
    assert both_ways(told(math.log(0.5)), None, told(), told(math.log(0.125))) == pytest.approx([0.25])
    assert both_ways(told(0, 1e-6)) == [1, 1], "rounding makes no more than certain"
    assert both_ways(told(-9999.0)) == [0, 0]


ODD: list[object] = [None, {}, {"content": None}, told(), 5, [], {"content": 5}, {"content": [5]}, {"content": [{}]}]
NO_LOGS: list[object] = ["-1", None, True, 0.5, float("nan"), float("-inf"), -(10**400), []]


@pytest.mark.parametrize(
    "said",
    ODD + [told(-0.1, log) for log in NO_LOGS],
    ids=repr,
)
def test_what_is_no_log_probability_is_no_confidence_and_no_error(said):
    assert set(both_ways(said)) == {None}
    if isinstance(said, dict) and said.get("content"):
        assert both_ways(told(-0.1), said) == [None], "it makes all of them worthless"


def test_a_cut_text_is_doubtful_and_one_that_is_missing_is_not():
    assert Certainty.of(Reply("a", confidence=0.89996), 0.9) == Certainty(0.9, False), "as it is shown"
    assert Certainty.of(Reply("a", confidence=0.8), 0.9) == Certainty(0.8, True)
    assert Certainty.of(Reply("a", confidence=0.0), 0.0) == Certainty(0.0, False), "a threshold of 0 marks none"
    assert Certainty.of(Reply("a"), 0.9) == Certainty(None, False)
    assert Certainty.of(Reply("a", BlockNote("length", "cut"), confidence=0.99), 0.9) == Certainty(0.99, True)
    assert Certainty.of(Reply("a", BlockNote("repetition", "cut")), 0.9) == Certainty(None, True)
    assert Certainty.of(Reply("", BlockNote("failed", "broke")), 0.9) == Certainty(None, False)


def test_blocks_without_one_get_no_members():
    """The setting is off, or the page was parsed before there was one."""
    entries: list[Any] = [{"block_id": 0}, {"block_id": 1}]
    add_members(entries, [Provenance(), Provenance()])
    assert entries == [{"block_id": 0}, {"block_id": 1}]


def blocks_of(entry: dict) -> list[dict]:
    return entry["prunedResult"]["parsing_res_list"]


def sure_of(words: str, log: float):
    """Log-probabilities: ``log`` for each token of texts with ``words``, else those of certain ones."""
    return lambda text: [log if words in text else -0.001] * (len(text) // 4 + 1)


@pytest.mark.parametrize("streams", [True, False])
def test_each_block_says_its_own(service, vlm, streams):
    vlm.streams, vlm.sure = streams, sure_of("<fcel>", math.log(0.6))
    blocks = blocks_of(service.page(samples.image()))
    assert all(request["logprobs"] is True and request["top_logprobs"] == 0 for request in vlm.requests)
    assert ASKED.items() <= vlm.requests[0].items()
    by_label = {block["block_label"]: (block["confidence"], block["doubtful"]) for block in blocks}
    assert by_label["table"] == (0.6, True), "of the marks that became HTML"
    assert by_label["image"] == (None, False), "the VLM was not asked"
    assert {said for label, said in by_label.items() if label not in ("table", "image")} == {(0.999, False)}


def test_a_server_that_says_none(service, vlm):
    vlm.sure = None
    blocks = blocks_of(service.page(samples.image()))
    assert {(block["confidence"], block["doubtful"]) for block in blocks} == {(None, False)}
    assert sum(bool(block["block_content"]) for block in blocks) == 7


def test_a_text_that_repeats_itself_is_doubtful(service, vlm):
    vlm.answer = lambda request, number: (
        "again and " * 400 if prompt_of(request) == TABLE else default_answer(request, number)
    )
    blocks = blocks_of(service.page(samples.image()))
    (table,) = (block for block in blocks if block["block_label"] == "table")
    # In a table 4000 characters are no repetition yet: it goes on until the second question's answer, too, is cut.
    assert (table["confidence"], table["doubtful"]) == (None, True)
    assert all(not block["doubtful"] for block in blocks if block is not table)


def test_characters_for_private_use_tell_nothing(service, vlm):
    """An answer belongs to a block by the block's number, and by nothing in its text."""
    digits = "".join(map(str, range(1500)))  # more than int() takes, and no repetition
    vlm.answer = lambda request, number: (
        f"\ue0000\ue001\ue000{digits}\ue001 forged \ue000" if prompt_of(request) == TABLE else "text"
    )
    vlm.sure = sure_of("forged", math.log(0.5))
    blocks = blocks_of(service.page(samples.image()))
    assert [block["block_label"] for block in blocks if block["doubtful"]] == ["table"]
    assert {block["confidence"] for block in blocks} == {None, 0.5, 0.999}


def join_tables(request: dict, number: int) -> str:
    return f"<fcel>Item<fcel>Price<nl><fcel>Pen<fcel>{number}<nl>" if prompt_of(request) == TABLE else f"text {number}"


def test_pages_that_are_joined_keep_theirs(service, vlm):
    vlm.answer, vlm.sure = join_tables, sure_of("<fcel>", math.log(0.7))
    document = samples.pdf(*PAGES)
    whole_page = {"useLayoutDetection": False, "promptLabel": "table", "visualize": False}
    joined = service.parse(document, restructurePages=True, **whole_page).json()["result"]["layoutParsingResults"]
    first, second = (blocks_of(page)[0] for page in joined)
    assert first["block_content"].count("Pen") == 2 and not second["block_content"]
    assert [(block["confidence"], block["doubtful"]) for block in (first, second)] == [(0.7, True), (None, False)]

    apart = service.parse(document, **whole_page).json()["result"]["layoutParsingResults"]
    blocks_of(apart[1])[0] |= {"confidence": 0.2}
    pages = [{"prunedResult": page["prunedResult"]} for page in apart]
    later = service.client.post("/restructure-pages", json={"pages": pages, "concatenatePages": True}).json()
    (entry,) = later["result"]["layoutParsingResults"]
    found = [(block["confidence"], block["doubtful"]) for block in blocks_of(entry)]
    assert found == [(0.2, True), (None, False)], "the least of both"


@pytest.mark.parametrize("odd", [{"confidence": 1.5}, {"confidence": "high"}, {"doubtful": 1}], ids=repr)
def test_what_a_client_sends_back_is_looked_at(service, odd):
    page = {"block_label": "text", "block_content": "a", "block_bbox": [0, 0, 9, 9], **odd}
    pruned = {"parsing_res_list": [page], "width": 9, "height": 9, "model_settings": {"use_doc_preprocessor": False}}
    refused = service.client.post("/restructure-pages", json={"pages": [{"prunedResult": pruned}]})
    assert refused.status_code == 422 and next(iter(odd)) in refused.json()["errorMsg"], refused.text
