# SPDX-License-Identifier: Apache-2.0
"""What the answer of a VLM that reads whole pages makes of a page: blocks, from Markdown or from texts with places."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

Box = tuple[int, int, int, int]  # left, top, right, bottom in pixels of the page
# What is more than paragraphs, beginning with a line of its own but for tables. What has no end goes on to the text's.
PIECES = re.compile(
    r"""(?P<table> <table\b (?:.*?</table>|.*) )
    | ^(?P<fence> (?P<mark>```|~~~) (?:.*?^(?P=mark)[ \t]*$|.*) )
    | ^(?P<formula> \$\$ (?:.*?\$\$|.*) | \\\[ (?:.*?\\\]|.*) )
    | ^(?P<heading> \#{1,6} [ \t]+ [^\n]+ )
    | ^(?P<pipes> \|[^\n]*\n \|[ \t:|-]+ (?:\n\|[^\n]*)* )""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
BLANK = re.compile(r"\n[ \t]*(?:\n[ \t]*)+")
OUTER = re.compile(r"```(?:markdown|md|html|latex)[ \t]*\n(.*?)\n?```", re.DOTALL)
SIGNS = ("$", "\\[", "\\(", "\\begin")
NUMBER = r"[ ]{0,3}(-?[0-9]{1,9}(?:\.[0-9]{1,9})?)[ ]{0,3}"
PLACE = re.compile(rf"\({NUMBER},{NUMBER}\)[ ]{{0,3}},[ ]{{0,3}}\({NUMBER},{NUMBER}\)")


@dataclasses.dataclass(frozen=True)
class WholePageBlock:
    """``label`` is one of the layout classes. ``box`` is that of the page where the answer does not say it.
    ``title_level``: 1 for what Markdown calls ``##``, of paragraph titles."""

    label: str
    content: str
    box: Box
    title_level: int | None = None

    def frozen(self) -> dict[str, Any]:
        """As ``page/frozen`` has blocks."""
        fields = {"label": self.label, "bbox": list(self.box), "content": self.content, "title_level": self.title_level}
        return {**fields, "group_id": None, "polygon_points": None, "image": None}


def blocks_of(markdown: str, page: Box) -> list[WholePageBlock]:
    """In reading order. Each has the box of the page, since Markdown says no places."""
    return list(_blocks(_bare(markdown), page))


def formula_of(latex: str, page: Box) -> list[WholePageBlock]:
    """The answer of a page that is one formula, whose signs it may leave out."""
    text = _bare(latex)
    if not text:
        return []
    return [WholePageBlock("display_formula", text if text.startswith(SIGNS) else f"$${text}$$", page)]


def _bare(answer: str) -> str:
    """Without the fence that models put around a whole answer."""
    text = answer.strip()
    fenced = OUTER.fullmatch(text)
    return fenced[1].strip() if fenced else text


def _blocks(markdown: str, page: Box) -> Iterator[WholePageBlock]:
    at = 0
    for piece in PIECES.finditer(markdown):
        yield from _paragraphs(markdown[at : piece.start()], page)
        at = piece.end()
        if heading := piece["heading"]:
            level = len(heading) - len(heading.lstrip("#"))
            title = heading.strip("# \t").strip()
            if title:
                yield (
                    WholePageBlock("doc_title", title, page)
                    if level == 1
                    else WholePageBlock("paragraph_title", title, page, level - 1)
                )
        elif piece["table"] or piece["pipes"]:
            yield WholePageBlock("table", piece[0].strip(), page)
        else:
            yield WholePageBlock("display_formula" if piece["formula"] else "algorithm", piece[0].strip(), page)
    yield from _paragraphs(markdown[at:], page)


def _paragraphs(text: str, page: Box) -> Iterator[WholePageBlock]:
    for paragraph in BLANK.split(text):
        if paragraph.strip():
            yield WholePageBlock("text", paragraph.strip("\n").rstrip(), page)


def texts_of(answer: str, ends: int, size: tuple[int, int]) -> tuple[list[WholePageBlock], str | None]:
    """The texts with their boxes on a page of ``size``, width and height in pixels; and what was wrong with the places,
    in words, or None.

    ``ends``: what the answer calls the right and the lower end of the page. A box that reaches beyond the page is cut.
    A text without a place, or with one that covers nothing of the page, gets the box of the page: no text is lost.
    """
    page = (0, 0, *size)
    blocks: list[WholePageBlock] = []
    cut = placeless = textless = at = 0
    for place in PLACE.finditer(answer):
        text, at = answer[at : place.start()].strip(), place.end()
        corners = [float(number) for number in place.groups()]
        if not text:
            textless += 1
            continue
        box = _box_of(corners, ends, size)
        cut += box is not None and not all(0 <= corner <= ends for corner in corners)
        placeless += box is None
        blocks.append(WholePageBlock("text", text, box or page))
    if rest := answer[at:].strip():
        placeless += 1
        blocks.append(WholePageBlock("text", rest, page))
    troubles = [
        (placeless, "without a place on the page, so with the box of the page"),
        (cut, "whose places reach beyond the page, and were cut to it"),
        (textless, "that are places without a text, and were left out"),
    ]
    words = ", ".join(f"{count} {what}" for count, what in troubles if count)
    return blocks, f"of what the VLM spotted there are {words}" if words else None


def _box_of(corners: list[float], ends: int, size: tuple[int, int]) -> Box | None:
    """The box in pixels, cut to the page; None where nothing of it is left."""
    left, right = sorted(_pixel(corner, ends, size[0]) for corner in corners[0::2])
    top, bottom = sorted(_pixel(corner, ends, size[1]) for corner in corners[1::2])
    return (left, top, right, bottom) if left < right and top < bottom else None


def _pixel(corner: float, ends: int, pixels: int) -> int:
    return round(min(max(corner / ends, 0.0), 1.0) * pixels)
