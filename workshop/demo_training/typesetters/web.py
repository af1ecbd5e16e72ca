# SPDX-License-Identifier: Apache-2.0
"""HTML of a document, for the typesetters that read it: Chromium and LibreOffice."""

from __future__ import annotations

import html
import random

from .blocks import TextBlock, spans

STYLES = {"": "%s", "emph": "<em>%s</em>", "strong": "<b>%s</b>", "code": "<code>%s</code>"}


def body(rng: random.Random, blocks: list[TextBlock]) -> str:
    titled = blocks[0].kind == "document_title"
    return "\n".join(_block(rng, block, 2 if titled else 1) for block in blocks)


def _inline(rng: random.Random, text: str, term: str) -> str:
    return " ".join(STYLES[style] % html.escape(piece) for style, piece in spans(rng, text, term))


def _block(rng: random.Random, block: TextBlock, highest: int) -> str:
    """``highest`` is the level of the highest titles of sections."""
    if block.kind == "document_title":
        align, size = rng.choice(("left", "center")), rng.choice((160, 180, 200, 240))
        return f'<h1 style="text-align: {align}; font-size: {size}%">{html.escape(block.parts[0])}</h1>'
    if block.kind == "title":
        level = rng.randint(highest, 4)
        return f"<h{level}>{html.escape(block.parts[0])}</h{level}>"
    if block.kind == "code":
        return "<pre>" + "\n".join(map(html.escape, block.parts)) + "</pre>"
    if block.kind in ("items", "numbered"):
        tag = "ul" if block.kind == "items" else "ol"
        return f"<{tag}>" + "".join(f"<li>{_inline(rng, part, block.term)}</li>" for part in block.parts) + f"</{tag}>"
    text = "".join(f"<p>{_inline(rng, part, block.term)}</p>" for part in block.parts)
    return f"<blockquote>{text}</blockquote>" if block.kind == "quote" else text
