# SPDX-License-Identifier: Apache-2.0
"""Prompts: the tasks of each family, the place of each image, and the chat around them."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from served_weights.identity import Signs
from served_weights.settings import WeightSettings
from served_weights.vlm import recognised
from tool_errors import UsageError

from .families import FAMILIES, model_type

# The words the models were trained with; config/models.yaml says which version knows which (PaddleX 3.7.2).
TASKS = {
    "ocr": "OCR:",
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


def task_of(weights: Path, task: str) -> str:
    """The prompt for a task of the model in a folder. Raises UsageError for a task that its family does not know, and
    for one that models.yaml gives to other versions of it only."""
    catalog = WeightSettings.from_environment(os.environ).catalog
    model = recognised(weights, catalog)
    versions = [other for other in catalog.models.values() if other.signs.architecture == model.signs.architecture]
    others = {name for other in versions for name in other.tasks or ()} - set(model.tasks or ())
    known = {name: words for name, words in OF_FAMILY[model_type(weights)].items() if name not in others}
    if task not in known:
        raise UsageError(f"--task {task}: this model knows {', '.join(sorted(known))}; ask anything else with --prompt")
    return known[task]


# How an answer of PaddleOCR-VL begins, by what the weights say of themselves (served_weights.identity).
ANSWERS = {"blank": "\nAssistant: ", "newline": "\nAssistant:\n"}
SPECIAL = re.compile(r"<[^<>]+>")


@dataclass(frozen=True)
class Form:
    """How a checkpoint's prompts are written. ``image`` is the place of one image: its token between begin and end.
    ``chat`` has ``{media}`` and ``{text}``."""

    image: str
    chat: str

    @classmethod
    def of(cls, weights: Path) -> Form:
        """Of the checkpoint in a folder: families differ, and versions of PaddleOCR-VL in how an answer begins. Raises
        UsageError."""
        family = FAMILIES[model_type(weights)]
        answer = ANSWERS[Signs.of_folder(weights).answer_begins or "blank"]
        return cls(family.image, family.chat.replace(ANSWERS["blank"], answer))

    @property
    def placeholder(self) -> str:
        """The token that images replace."""
        return SPECIAL.findall(self.image)[1]

    @property
    def begin(self) -> str:
        """The token that every complete prompt begins with."""
        return SPECIAL.findall(self.chat)[0]

    def complete(self, text: str) -> str:
        """``text``, which holds the places, as the user's turn; a prompt that is complete is left as it is."""
        return text if text.startswith(self.begin) else self.chat.format(media="", text=text)

    def split(self, text: str, images: int) -> list[tuple[str, list[int]]]:
        """The conversations that a prompt and ``images`` images make: (complete prompt, numbers of its images from 0).

        A prompt without a placeholder gets one in front and is asked of each image in turn, as is one that holds a
        single placeholder. A prompt with a placeholder for each image is asked once, of all. Raises UsageError
        otherwise.
        """
        places = text.count(self.placeholder)
        if places != text.count(self.image):
            begin, place, end = SPECIAL.findall(self.image)
            raise UsageError(f"--prompt: each {place} must stand between {begin} and {end}: {self.image}")
        if places == 0:
            if text.startswith(self.begin):
                raise UsageError(
                    f"--prompt: begins with {self.begin}, so it is taken as complete, but holds no {self.image}"
                )
            text, places = self.image + text, 1
        if places == images:
            return [(self.complete(text), list(range(images)))]
        if places == 1:
            return [(self.complete(text), [number]) for number in range(images)]
        raise UsageError(
            f"Image features and image tokens do not match: --prompt holds {places} placeholders for {images} images; "
            f'write {self.image} once for each image, or leave it out, and it is added: --prompt "OCR:"'
        )

    def question(self, prompt: str, images: int) -> str:
        """The text behind the images of a complete prompt that is one user's turn. Raises UsageError for any other."""
        head, tail = self.chat.format(media=self.image * images, text="\n\n").split("\n\n")
        if not (prompt.startswith(head) and prompt.endswith(tail)):
            raise UsageError(
                "--prompt: a served candidate takes images first, then text, in one turn; leave the image places out"
            )
        return prompt[len(head) : len(prompt) - len(tail)]
