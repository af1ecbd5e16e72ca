# SPDX-License-Identifier: Apache-2.0
"""The demo tokenizer keeps text, and the training prompt is what the chat template gives."""

import string
from pathlib import Path

import jinja2
import pytest
from tokenizers import Tokenizer

from demo_training.vlm import tokenizer as tokens
from demo_training.vlm.export import CHAT_TEMPLATE

DEMO = Path(__file__).resolve().parents[4] / "models" / "demo" / "PaddleOCR-VL"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(DEMO / "tokenizer.json"))


@pytest.mark.parametrize(
    "text", ["Total: $1,234.50 (incl. 20% VAT)", "a  b", " leading", string.printable[:95], "Größe 北京"]
)
def test_text_survives(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_english_takes_fewer_tokens_than_characters(tokenizer):
    text = "The service keeps every document that it has accepted until the work is done."
    assert len(tokenizer.encode(text).ids) < len(text) / 2


def test_prompt_is_the_chat_template(tokenizer):
    message = {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": tokens.PROMPT}]}
    text = jinja2.Template(CHAT_TEMPLATE).render(messages=[message], add_generation_prompt=True)
    before, after = tokens.prompt_ids(tokenizer)
    image = tokenizer.token_to_id(tokens.IMAGE)
    assert tokenizer.encode(text, add_special_tokens=False).ids == [*before, image, *after]


def test_table_marks_are_text(tokenizer):
    ids = tokenizer.encode("<fcel>A<nl>").ids
    assert tokenizer.decode(ids, skip_special_tokens=True) == "<fcel>A<nl>"
