# SPDX-License-Identifier: Apache-2.0
"""PaddleOCR-VL's prompts: the tasks, the place of each image, and the chat format around them."""

from __future__ import annotations

from pathlib import Path

from selftest.check import OCR_PROMPT
from served_weights.identity import Signs
from tool_errors import UsageError

PLACEHOLDER = "<|IMAGE_PLACEHOLDER|>"
IMAGE = f"<|IMAGE_START|>{PLACEHOLDER}<|IMAGE_END|>"
BEGIN = "<|begin_of_sentence|>"

# The words the models were trained with; config/models.yaml says which version knows which (PaddleX 3.7.2).
TASKS = {
    "ocr": OCR_PROMPT,
    "table": "Table Recognition:",
    "formula": "Formula Recognition:",
    "chart": "Chart Recognition:",
    "seal": "Seal Recognition:",
    "spotting": "Spotting:",
}


# How an answer begins, by what the weights say of themselves (served_weights.identity).
ANSWERS = {"blank": "\nAssistant: ", "newline": "\nAssistant:\n"}


def answer_of(weights: Path) -> str:
    """How an answer begins for the checkpoint in a folder: versions of PaddleOCR-VL differ in it. Raises UsageError."""
    return ANSWERS[Signs.of_folder(weights).answer_begins or "blank"]


def chat(text: str, answer: str = ANSWERS["blank"]) -> str:
    """``text``, which holds the image places, as the user's turn; a prompt that is complete is left as it is."""
    return text if text.startswith(BEGIN) else f"{BEGIN}User: {text}{answer}"


def split(text: str, images: int, answer: str = ANSWERS["blank"]) -> list[tuple[str, list[int]]]:
    """The conversations that a prompt and ``images`` images make: (complete prompt, numbers of its images from 0).
    ``answer`` is what ``answer_of`` says.

    A prompt without a placeholder gets one in front and is asked of each image in turn, as is one that holds a single
    placeholder. A prompt with a placeholder for each image is asked once, of all. Raises UsageError otherwise.
    """
    places = text.count(PLACEHOLDER)
    if places != text.count(IMAGE):
        raise UsageError(f"--prompt: each {PLACEHOLDER} must stand between <|IMAGE_START|> and <|IMAGE_END|>: {IMAGE}")
    if places == 0:
        if text.startswith(BEGIN):
            raise UsageError(f"--prompt: begins with {BEGIN}, so it is taken as complete, but holds no {IMAGE}")
        text, places = IMAGE + text, 1
    if places == images:
        return [(chat(text, answer), list(range(images)))]
    if places == 1:
        return [(chat(text, answer), [number]) for number in range(images)]
    raise UsageError(
        f"Image features and image tokens do not match: --prompt holds {places} placeholders for {images} images; "
        f'write {IMAGE} once for each image, or leave it out, and it is added: --prompt "OCR:"'
    )
