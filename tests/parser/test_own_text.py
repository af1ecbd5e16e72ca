# SPDX-License-Identifier: Apache-2.0
"""A PDF that says its own text, through the running service: what `textLayer` and PARSER_TEXT_LAYER make of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from docparser.contract.schemas import FileOptions, ParseOptions
from docparser.settings import Settings
from tests.parser.born_digital import DOCUMENT, NEXT, TITLE, WORDS, born_digital
from tests.support import samples
from tests.support.simulated_vlm import prompt_of


def by_label(entry: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The first block of each label."""
    return {block["block_label"]: block for block in reversed(entry["prunedResult"]["parsing_res_list"])}


def test_prefer_asks_the_vlm_about_the_rest(service, vlm):
    blocks = by_label(service.page(DOCUMENT, textLayer="prefer"))
    plain = {"doc_title": TITLE, "text": WORDS, "paragraph_title": NEXT}
    assert {label: blocks[label]["block_content"] for label in plain} == plain
    assert {blocks[label]["source"] for label in plain} == {"page"}
    assert blocks["table"]["source"] == "vlm" and blocks["image"]["source"] is None
    assert all(blocks[label]["confidence"] is None for label in plain), "the VLM was not asked"
    assert sorted(map(prompt_of, vlm.requests)) == ["OCR:", "OCR:", "OCR:", "Table Recognition:"], "the rest"


def test_check_says_how_far_they_agree(service, vlm):
    vlm.answer = lambda request, number: WORDS.replace("shows", "sh0vvs")
    answer = service.parse(DOCUMENT, textLayer="check", visualize=False).json()["result"]
    blocks = by_label(answer["layoutParsingResults"][0])
    assert len(vlm.requests) == 7, "all are asked for"
    assert 0.9 < blocks["text"]["agreement"] < 0.98 and blocks["text"]["doubtful"] is True
    assert blocks["text"]["source"] == "vlm" and blocks["header"]["agreement"] is None, "the page says nothing there"
    (page,) = answer["docparser"]["pages"]
    assert any("'sh0vvs,' for 'shows,'" in note["message"] for note in page["notes"] if note["kind"] == "differs"), page
    assert answer["docparser"]["partial"] is False, "nothing is missing"


@pytest.mark.parametrize("mode", ["check", "repair", "prefer"])
def test_a_lie_reaches_no_answer(service, vlm, mode):
    """The page's map says other letters than it shows."""
    swapped = dict(zip("abcdefghijklmnoprstuvwxy", "bcdefghijklmnoprstuvwxya", strict=True))
    vlm.answer = lambda request, number: "what is shown"
    answer = service.parse(samples.encode(born_digital(to_unicode=swapped)), textLayer=mode, visualize=False).json()
    lied = "".join(swapped.get(letter, letter) for letter in WORDS)
    assert lied.split()[0] not in json.dumps(answer, ensure_ascii=False), lied
    blocks = by_label(answer["result"]["layoutParsingResults"][0])
    assert blocks["text"]["block_content"] == "what is shown" and blocks["text"]["agreement"] is None


def test_off_is_as_without_it(service):
    pages = [service.page(DOCUMENT, **options) for options in ({}, {"textLayer": "off"}, {"textLayer": None})]
    assert pages[0] == pages[1] == pages[2]
    assert all("source" not in block for block in pages[0]["prunedResult"]["parsing_res_list"])


def test_a_picture_is_the_same_in_every_mode(service):
    pages = [service.page(samples.image(), textLayer=mode) for mode in ("off", "check", "repair", "prefer")]
    assert all(page == pages[0] for page in pages)


def test_a_file_prefers_its_own_text(service, vlm):
    """`POST /parse`, where nobody says anything."""
    files = {"file": ("page.pdf", born_digital())}
    assert WORDS in service.client.post("/parse", files=files).text
    options = {"options": json.dumps({"textLayer": "off"})}
    assert WORDS not in service.client.post("/parse", files=files, data=options).text


@pytest.mark.parametrize("wrong", ["on", "", 1, True])
def test_another_mode_is_refused(wrong: object):
    with pytest.raises(ValidationError, match="'off', 'check', 'repair' or 'prefer'"):
        ParseOptions.model_validate({"textLayer": wrong})
    with pytest.raises(ValidationError, match="text_layer"):
        Settings(text_layer=str(wrong))


def test_the_defaults():
    assert (Settings().text_layer, ParseOptions().textLayer, FileOptions().textLayer) == ("auto", None, "prefer")
    assert FileOptions.model_validate({"textLayer": None}).textLayer == "prefer", "null is the default, everywhere"
    assert "textLayer" not in FileOptions().model_fields_set, "nobody asked for it"
