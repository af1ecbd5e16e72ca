# SPDX-License-Identifier: Apache-2.0
"""What the demo writes of an answer: pages one after the other, headings at their levels in the document."""

from __future__ import annotations

import base64
import json
import os
import urllib.parse
from pathlib import Path
from typing import Any

import pytest

from bundle import parser_client
from bundle.demo import __main__ as demo
from bundle.demo import outputs
from bundle.demo.inputs import Document


def page(text: str, *outline: tuple[int, str]) -> dict[str, Any]:
    return {
        "prunedResult": {"parsing_res_list": []},
        "markdown": {"text": text, "images": {}},
        "outline": [{"block_id": at, "level": level, "text": words} for at, (level, words) in enumerate(outline)],
    }


def test_headings_have_the_levels_of_the_outline():
    pages = [
        page("# Bakery\n\nWords.\n\n## 1 Keys", (1, "Bakery"), (2, "1 Keys.")),
        page("# 2 Lights\n\n# 2 Lights\n\n#### 2.1 Heat\n# no heading", (2, "2 Lights"), (3, "2.1 Heat")),
        page("no heading at all"),
    ]
    parsed = outputs.collect(Document(Path("a.pdf"), "PDF"), {"layoutParsingResults": pages}, {})
    assert parsed.markdown == (
        "# Bakery\n\nWords.\n\n## 1 Keys.\n\n"
        "## 2 Lights\n\n# 2 Lights\n\n### 2.1 Heat\n# no heading\n\nno heading at all\n"
    )


@pytest.mark.parametrize(
    ("name", "link"),
    [
        ('a#b ?"c".pdf', "a%23b%20%3F%22c%22"),
        ("(1) 100%.pdf", "%281%29%20100%25"),
        ("报告-é~1.pdf", "报告-é~1"),
        (os.fsdecode(b"\xff.pdf"), "%FF"),
    ],
)
def test_a_picture_is_found_whatever_the_documents_name(name: str, link: str):
    """A link in Markdown and in HTML is an address: signs that would end it, or begin something else, are escaped."""
    source = "imgs/img_in_image_box_1_2_3_4.jpg"
    pages = [page(f'<img src="{source}" />')]
    pages[0]["markdown"]["images"] = {source: base64.b64encode(b"picture").decode()}
    document = Document(Path(name), "PDF")
    parsed = outputs.collect(document, {"layoutParsingResults": pages}, {})
    ending = "-1-img_in_image_box_1_2_3_4.jpg"
    assert parsed.markdown == f'<img src="images/{link}{ending}" />\n'
    assert parsed.images == {f"images/{document.stem}{ending}": b"picture"}
    found = urllib.parse.unquote_to_bytes(parsed.markdown.split('"')[1])
    assert os.fsdecode(found) in parsed.images


def test_blocks_that_were_lost_are_told_and_recorded(tmp_path, monkeypatch, capsysbinary):
    blocks = [{"block_id": 7, "kind": "timeout", "message": "the VLM took too long"}]
    pages = {"layoutParsingResults": [page("One"), page("Two")]}
    result = pages | {"docparser": {"pages": [{"page": 2, "blocks": blocks}]}}
    monkeypatch.setattr(parser_client, "request", lambda *_, **__: result)
    assert not demo.parse(Document(Path("a.pdf"), "PDF"), 2, "http://parser", tmp_path, {}), "exit status 1"
    assert b"note: a.pdf, page 2: block incomplete: the VLM took too long" in capsysbinary.readouterr().err
    assert [one.get("blocks") for one in json.loads((tmp_path / "a.json").read_bytes())["pages"]] == [None, blocks]
    del result["docparser"]
    assert demo.parse(Document(Path("a.pdf"), "PDF"), 2, "http://parser", tmp_path, {})
