# SPDX-License-Identifier: Apache-2.0
"""Honest documents: pages that the demo weights read well, and what they are read as when nothing is wrong."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bundle.paths import ROOT

DATA = ROOT / "tests" / "data"
# Begins every text that the proxy makes up in the VLM's place, so that the judge knows a lie from a mistake.
LIE = "QZLIEQZ"
ADDRESS = re.compile(r'src="[^"]*"')

Block = tuple[str, str]
Page = tuple[Block, ...]


@dataclass(frozen=True)
class Document:
    name: str
    path: Path
    pages: int

    @property
    def file_type(self) -> int:
        """PaddleX's number for it: 0 is a PDF, 1 an image."""
        return 0 if self.path.suffix == ".pdf" else 1


def honest() -> list[Document]:
    pages = {"letter.png": 1, "report.png": 1, "invoice.png": 1, "handbook.pdf": 3}
    return [Document(name, DATA / name, count) for name, count in pages.items()]


def page_of(entry: dict[str, Any]) -> Page:
    """(label, text) of each block of a page's entry. Pictures' addresses differ between jobs and are left out."""
    blocks = (entry.get("prunedResult") or {}).get("parsing_res_list") or []
    return tuple((block["block_label"], ADDRESS.sub("src", block["block_content"] or "")) for block in blocks)


@dataclass
class Readings:
    """Every reading of the honest documents while nothing was wrong: name -> page number from 0 -> its variants.

    A block's text may depend on what the VLM computes beside it, so a page can have several variants.
    """

    variants: dict[str, list[set[Page]]] = field(default_factory=dict)

    def add(self, name: str, entries: list[dict[str, Any]]) -> None:
        pages = self.variants.setdefault(name, [set() for _ in entries])
        for seen, entry in zip(pages, entries, strict=True):
            seen.add(page_of(entry))

    def difference(self, name: str, number: int, entry: dict[str, Any], noted: set[int]) -> str:
        """What differs from every undisturbed reading, "" if nothing does.

        Blocks that hold a lie, and those at the places of `noted`, are not compared.
        """
        found = page_of(entry)
        if found in self.variants[name][number]:
            return ""
        worst = ""
        for variant in sorted(self.variants[name][number]):
            if len(variant) != len(found):
                worst = worst or f"{len(found)} blocks instead of {len(variant)}"
                continue
            wrong = [
                place
                for place, (one, other) in enumerate(zip(found, variant))
                if one != other and place not in noted and LIE not in one[1]
            ]
            if not wrong:
                return ""
            one, other = found[wrong[0]], variant[wrong[0]]
            worst = f"block {wrong[0]}: {one[0]} {one[1][:120]!r} instead of {other[0]} {other[1][:120]!r}"
        return worst
