# SPDX-License-Identifier: Apache-2.0
"""Comparing a parsed page with the ground truth of a drawn one."""

from __future__ import annotations

import html
import re
from typing import Any

# What the Markdown leaves out by default, and what is no running text.
LEFT_OUT = {"header", "footer", "number", "footnote", "header_image", "footer_image", "image", "chart", "table"}


def true_text(page: dict[str, Any]) -> str:
    """The running text of a page in reading order."""
    return squeeze(" ".join(blocks_expected(page)))


def blocks_expected(page: dict[str, Any]) -> list[str]:
    """The texts of a page's running blocks, in order."""
    blocks = sorted(page["blocks"], key=lambda block: block["order"])
    return [squeeze(block["text"]) for block in blocks if block["label"] not in LEFT_OUT]


def found_text(page: dict[str, Any]) -> str:
    """The running text that was found on a page, in the order found."""
    return squeeze(" ".join(blocks_found(page)))


def blocks_found(page: dict[str, Any]) -> list[str]:
    """The texts of the running blocks that were found, in the order found."""
    blocks = page["prunedResult"]["parsing_res_list"]
    return [squeeze(block["block_content"]) for block in blocks if block["block_label"] not in LEFT_OUT]


def plain(markdown: str) -> str:
    """Markdown without images, markup and heading marks."""
    text = re.sub(r"<[^>]+>", " ", markdown)
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
