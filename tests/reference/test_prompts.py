# SPDX-License-Identifier: Apache-2.0
"""Where the image goes in a prompt."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from reference import prompts, served
from reference.cases import Case
from tests.reference.golden import PROMPT
from tool_errors import UsageError


def test_the_placeholder_is_added():
    assert prompts.split("OCR:", 1) == [(PROMPT, [0])]


def test_a_prompt_with_it_is_the_same():
    assert prompts.split(prompts.IMAGE + "OCR:", 1) == [(PROMPT, [0])]


@pytest.mark.parametrize("text", ["OCR:", prompts.IMAGE + "OCR:"])
def test_several_images_are_asked_one_by_one(text):
    assert prompts.split(text, 3) == [(PROMPT, [0]), (PROMPT, [1]), (PROMPT, [2])]


def test_a_place_for_each_image_makes_one_question():
    ((prompt, images),) = prompts.split(f"{prompts.IMAGE}and{prompts.IMAGE}: which is older?", 2)
    assert images == [0, 1] and prompt.count(prompts.PLACEHOLDER) == 2


def test_a_complete_prompt_is_left_as_it_is():
    assert prompts.split(PROMPT, 1) == [(PROMPT, [0])]


@pytest.mark.parametrize(
    ("text", "images", "cure"),
    [
        (prompts.IMAGE * 2, 1, "Image features and image tokens do not match"),
        (prompts.IMAGE * 2, 3, "write <|IMAGE_START|>"),
        (prompts.PLACEHOLDER, 1, "must stand between"),
        (prompts.BEGIN + "User: hello", 1, "taken as complete"),
    ],
)
def test_wrong_numbers_of_placeholders_name_the_cure(text, images, cure):
    with pytest.raises(UsageError, match=cure.replace("|", r"\|")):
        prompts.split(text, images)


def test_the_prompt_of_each_version(tmp_path: Path):
    assert prompts.answer_of(tmp_path) == "\nAssistant: ", "the demo's and version 1's"
    (tmp_path / "chat_template.jinja").write_text('{{- "Assistant:\\n" -}}')
    ((prompt, _),) = prompts.split("OCR:", 1, prompts.answer_of(tmp_path))
    assert prompt == f"<|begin_of_sentence|>User: {prompts.IMAGE}OCR:\nAssistant:\n"
    assert served.question(Case(prompt, [np.zeros((1, 1, 3), np.uint8)])) == "OCR:"
