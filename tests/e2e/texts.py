# SPDX-License-Identifier: Apache-2.0
"""Comparing Markdown with the ground truth of a drawn page."""

from __future__ import annotations

import html
import re

# What the Markdown leaves out, and what is no running text.
LEFT_OUT = {"header", "footer", "number", "footnote", "header_image", "footer_image", "image", "chart", "table"}


def true_text(page: dict[str, object]) -> str:
    """The running text of a page in reading order."""
    blocks = sorted(page["blocks"], key=lambda block: block["order"])
    return squeeze(" ".join(block["text"] for block in blocks if block["label"] not in LEFT_OUT))


def plain(markdown: str) -> str:
    """Markdown without tables, images, markup and heading marks."""
    text = re.sub(r"<table.*?</table>", " ", markdown, flags=re.DOTALL)
    text = re.sub(r"<[^>]+>", " ", text)
    text = re.sub(r"^#+ ", "", text, flags=re.MULTILINE)
    return squeeze(html.unescape(text))


def squeeze(text: str) -> str:
    return " ".join(text.split())


def distance(a: str, b: str) -> int:
    """Levenshtein distance: insertions, deletions and substitutions, each counting one."""
    row = list(range(len(b) + 1))
    for i, left in enumerate(a, 1):
        previous, row[0] = row[0], i
        for j, right in enumerate(b, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (left != right))
    return row[-1]


def error_rate(found: str, truth: str) -> float:
    """Character error rate: distance over the length of the truth."""
    return distance(found, truth) / max(len(truth), 1)
