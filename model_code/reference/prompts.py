# SPDX-License-Identifier: Apache-2.0
"""Prompts: the tasks of each family, and for PaddleOCR-VL the place of each image and the chat format around them."""

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

# HunyuanOCR's README, version 1.0.
HUNYUAN_TASKS = {
    "spotting": "检测并识别图片中的文字，将文本坐标格式化输出。",
    "formula": "识别图片中的公式，用 LaTeX 格式表示。",
    "table": "把图中的表格解析为 HTML。",
    "chart": "解析图中的图表，对于流程图使用 Mermaid 格式表示，其他图表使用 Markdown 格式表示。",
    "document": "提取文档图片中正文的所有信息用 markdown 格式表示，其中页眉、页脚部分忽略，表格用 html 格式表达，"
    "文档中公式用 latex 格式表示，按照阅读顺序组织进行解析。",
    "ocr": "提取图中的文字。",
    "subtitles": "提取图片中的字幕。",
    "translation": "先提取文字，再将文字内容翻译为英文。若是文档，则其中页眉、页脚忽略。公式用latex格式表示，"
    "表格用html格式表示。",
}
# A general model has no prompts of its own; these say in words what the tasks are.
QWEN2_VL_TASKS = {
    "ocr": "Read all text in this image. Answer with the text alone.",
    "document": "Convert this page to Markdown, in reading order. Write tables in HTML and formulas in LaTeX.",
    "describe": "Describe this.",
}
OF_FAMILY = {"paddleocr_vl": TASKS, "hunyuan_vl": HUNYUAN_TASKS, "qwen2_vl": QWEN2_VL_TASKS}
ALL_TASKS = sorted({task for tasks in OF_FAMILY.values() for task in tasks})


def task_of(family: str, task: str) -> str:
    """A family's prompt for a task. Raises UsageError for one that it does not know."""
    tasks = OF_FAMILY[family]
    if task not in tasks:
        raise UsageError(f"--task {task}: this model knows {', '.join(sorted(tasks))}; ask anything else with --prompt")
    return tasks[task]


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
