# SPDX-License-Identifier: Apache-2.0
"""The golden title, as a case of the tools."""

from __future__ import annotations

from reference.cases import Case
from reference.media import read_image
from tests.support.paths import GOLDEN

PROMPT = "<|begin_of_sentence|>User: <|IMAGE_START|><|IMAGE_PLACEHOLDER|><|IMAGE_END|>OCR:\nAssistant: "


def case(answer: list[int] | None = None) -> Case:
    """The golden title as a case."""
    return Case(PROMPT, [read_image(GOLDEN / "title.png")], answer=answer or [])
