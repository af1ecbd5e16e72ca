# SPDX-License-Identifier: Apache-2.0
"""The golden title, as a case of the tools."""

from __future__ import annotations

from reference import pictures
from reference.cases import Case
from tests.support.paths import GOLDEN

PROMPT = "<|begin_of_sentence|>User: <|IMAGE_START|><|IMAGE_PLACEHOLDER|><|IMAGE_END|>OCR:\nAssistant: "


def case(answer: list[int] | None = None) -> Case:
    """The golden title as a case."""
    return Case(PROMPT, [pictures.read(GOLDEN / "title.png")], answer=answer or [])
