# SPDX-License-Identifier: Apache-2.0
"""The blocks of a page with their places, as a ``prunedResult`` has them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from docparser.convert.formulas import Formulas
from docparser.convert.names import writable
from docparser.places.box import Box

DOCUMENT = "document"  # the prompt that asks a VLM for Markdown
# What a Markdown text may hold besides its words: marks of headings, emphasis, elements of HTML.
MARKS = re.compile(r"^#{1,6}\s+|\*\*|</?[A-Za-z][^<>]{0,80}>", re.MULTILINE)
# What PaddleX writes around a block's text where formatBlockContent asks for it (markdown_format_funcs.py).
FORMATTED = re.compile(
    r"""\A\#{1,7}[ ] | \A<div[ ]style="text-align:[ ]center;">(?=.*</div>\n?\Z) | </div>\n?\Z
    | <img[ ]src="[^"]*"[ ]alt="Image"[ ]width="-?\d+%"[ ]/> | \A!\[\]\([^)]*\)""",
    re.VERBOSE | re.DOTALL,
)
OUR_MARKS = re.compile("[\ue000-\ue003]")  # private use: they stand for formulas and pictures while a file is written
NEVER_FORMATTED = ("text", "ocr", "vertical_text", "reference_content", "table")
NO_HEADS: Mapping[int, int] = MappingProxyType({})


@dataclasses.dataclass(frozen=True)
class Block:
    """``boxes``: PaddleX may join blocks before it asks the VLM, whose text is then that of several boxes in order.
    ``doubtful``, ``source``, ``agreement``: as the answer says. ``markdown``: the VLM was asked to write Markdown.
    ``head``: how many rows of a table are set off as its head. ``id``: the block's ``block_id``, if it has one."""

    label: str
    boxes: tuple[Box, ...]
    content: str
    doubtful: bool = False
    markdown: bool = False
    source: str | None = None
    agreement: float | None = None
    head: int = 0
    id: int | None = None

    @property
    def exact(self) -> bool:
        """Whether the text is the page's own and the VLM was not asked, so that no sign in it is a formula's."""
        return self.source == "page" and self.agreement is None

    @property
    def plain(self) -> str:
        """The words, formulas as LaTeX without their signs."""
        formulas = Formulas(exact=self.exact)
        text = formulas.take_out(self.content)
        return formulas.put_back_latex(MARKS.sub("", text) if self.markdown else text).strip()


def heads_of(entry: Mapping[str, Any]) -> dict[int, int]:
    """How many rows of each table of a page are its head, by the block's id."""
    return {head["block_id"]: head["rows"] for head in entry.get("tableHeads", ())}


def all_blocks(pruned: dict[str, Any], heads: Mapping[int, int] = NO_HEADS) -> Iterator[Block]:
    """In reading order, with headers, footers and page numbers, and with blocks without text. ``heads``: see
    ``heads_of``."""
    listed = pruned.get("parsing_res_list") or []
    settings = pruned.get("model_settings") or {}
    markdown = settings.get("prompt_label") == DOCUMENT
    boxes: dict[Any, list[Box]] = {}
    for number, block in enumerate(listed):
        boxes.setdefault(block.get("group_id", number), []).append(Box(*map(float, block["block_bbox"])))
    for number, block in enumerate(listed):
        label, content = block["block_label"], unmarked(block.get("block_content") or "").strip()
        if settings.get("format_block_content") and label not in NEVER_FORMATTED:
            content = FORMATTED.sub("", content).strip()
        own = [Box(*map(float, block["block_bbox"]))]
        if content:
            own = boxes.pop(block.get("group_id", number), own)
        doubtful, agreement = block.get("doubtful") is True, block.get("agreement")
        own_id = block.get("block_id")
        head = heads.get(own_id, 0)
        yield Block(label, tuple(own), content, doubtful, markdown, block.get("source"), agreement, head, own_id)


def unmarked(text: str) -> str:
    """``text`` as any file may hold it, without the characters that have a meaning here."""
    return OUR_MARKS.sub("", writable(text))


def blocks_of(pruned: dict[str, Any]) -> Iterator[Block]:
    """Those with text."""
    return (block for block in all_blocks(pruned) if block.content)
