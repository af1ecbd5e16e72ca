# SPDX-License-Identifier: Apache-2.0
"""What the demo writes of an answer: pages one after the other, headings at their levels in the document."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
