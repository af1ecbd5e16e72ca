# SPDX-License-Identifier: Apache-2.0
"""Where the image goes in a prompt."""

from __future__ import annotations

from pathlib import Path

import pytest

from reference import prompts
from reference.families import FAMILIES
from reference.prompts import Form
from served_weights.catalog import DEFAULT_FILE, Catalog
from tests.reference.golden import PROMPT
from tool_errors import UsageError

FORM = Form(FAMILIES["paddleocr_vl"].image, FAMILIES["paddleocr_vl"].chat)
IMAGE = FORM.image


def test_the_placeholder_is_added():
    assert FORM.split("OCR:", 1) == [(PROMPT, [0])]


def test_a_prompt_with_it_is_the_same():
    assert FORM.split(IMAGE + "OCR:", 1) == [(PROMPT, [0])]


@pytest.mark.parametrize("text", ["OCR:", IMAGE + "OCR:"])
def test_several_images_are_asked_one_by_one(text):
    assert FORM.split(text, 3) == [(PROMPT, [0]), (PROMPT, [1]), (PROMPT, [2])]


def test_a_place_for_each_image_makes_one_question():
    ((prompt, images),) = FORM.split(f"{IMAGE}and{IMAGE}: which is older?", 2)
    assert images == [0, 1] and prompt.count(FORM.placeholder) == 2


def test_a_complete_prompt_is_left_as_it_is():
    assert FORM.split(PROMPT, 1) == [(PROMPT, [0])]


@pytest.mark.parametrize(
    ("text", "images", "cure"),
    [
        (IMAGE * 2, 1, "Image features and image tokens do not match"),
        (IMAGE * 2, 3, "write <|IMAGE_START|>"),
        (FORM.placeholder, 1, "must stand between"),
        (FORM.begin + "User: hello", 1, "taken as complete"),
    ],
)
def test_wrong_numbers_of_placeholders_name_the_cure(text, images, cure):
    with pytest.raises(UsageError, match=cure.replace("|", r"\|")):
        FORM.split(text, images)


def test_the_prompt_of_each_version(tmp_path: Path):
    (tmp_path / "config.json").write_text('{"model_type": "paddleocr_vl"}')
    assert Form.of(tmp_path) == FORM, "the demo's and version 1's"
    (tmp_path / "chat_template.jinja").write_text('{{- "Assistant:\\n" -}}')
    form = Form.of(tmp_path)
    ((prompt, _),) = form.split("OCR:", 1)
    assert prompt == f"<|begin_of_sentence|>User: {IMAGE}OCR:\nAssistant:\n"
    assert form.question(prompt, 1) == "OCR:"


@pytest.mark.parametrize("family", FAMILIES)
def test_prompts_of_every_family(family: str, tmp_path: Path):
    (tmp_path / "config.json").write_text(f'{{"model_type": "{family}"}}')
    form, chat = Form.of(tmp_path), FAMILIES[family].chat
    ((first, _), (second, numbers)) = form.split("Read {this}.", 2)
    assert first == second == chat.format(media=form.image, text="Read {this}.") and numbers == [1]
    assert form.split(first, 1) == [(first, [0])], "it is complete"
    ((both, numbers),) = form.split(form.image * 2 + "Which?", 2)
    assert numbers == [0, 1] and form.question(both, 2) == "Which?" and form.question(first, 1) == "Read {this}."
    with pytest.raises(UsageError, match="images first, then text"):
        form.question(f"{form.begin}Read.", 1)
    with pytest.raises(UsageError, match="must stand between"):
        form.split(form.placeholder, 1)


def test_a_task_is_asked_of_the_versions_that_know_it(tmp_path: Path):
    """models.yaml says which: seals and places from 1.5 on. A family's further prompts belong to no version."""
    (tmp_path / "config.json").write_text(
        '{"model_type": "paddleocr_vl", "architectures": ["PaddleOCRVLForConditionalGeneration"]}'
    )
    (tmp_path / "chat_template.jinja").write_text('{{- "Assistant: " -}}')
    assert prompts.task_of(tmp_path, "chart") == "Chart Recognition:"
    for task in ("seal", "spotting"):
        with pytest.raises(UsageError, match=f"--task {task}: this model knows chart, formula, ocr, table; ask"):
            prompts.task_of(tmp_path, task)
    (tmp_path / "chat_template.jinja").write_text('{{- "Assistant:\\n" -}}')
    assert prompts.task_of(tmp_path, "seal") == "Seal Recognition:"
    (tmp_path / "config.json").write_text(
        '{"model_type": "hunyuan_vl", "architectures": ["HunYuanVLForConditionalGeneration"]}'
    )
    assert prompts.task_of(tmp_path, "subtitles") == prompts.HUNYUAN_TASKS["subtitles"]


# By the family that models.yaml names, as the launcher serves it.
GOLDEN = {"PaddleOCR": "paddleocr_vl", "Qwen2": "qwen2_vl", "HunyuanOCR": "hunyuan_vl"}


@pytest.mark.parametrize("model", Catalog.load(DEFAULT_FILE).models.values(), ids=lambda model: model.name)
def test_golden_blocks_are_asked_for_text_in_the_models_own_words(model):
    """Within the pixels that the tools give a family where nobody says any."""
    (kind,) = (kind for name, kind in GOLDEN.items() if model.name.startswith(name))
    family, asked = FAMILIES[kind], model.golden
    assert asked.prompt == prompts.OF_FAMILY[kind]["ocr"] and "ocr" in model.tasks
    assert (asked.min_pixels, asked.max_pixels) == (family.min_pixels, family.max_pixels)
