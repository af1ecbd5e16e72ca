# SPDX-License-Identifier: Apache-2.0
"""The result of a parsed document as every format is made from it: its pages, and their blocks with places."""

from __future__ import annotations

import base64
import dataclasses
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from docparser.convert.formulas import Formulas
from docparser.convert.safe_text import safe_name, writable

# What a block's text may hold besides its words: marks of headings, emphasis, elements of HTML.
MARKS = re.compile(r"^#{1,6}\s+|\*\*|</?[A-Za-z][^<>]{0,80}>", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Box:
    """Left, top, right and bottom in pixels of the page as it was parsed."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def width(self) -> float:
        return self.right - self.left

    @property
    def height(self) -> float:
        return self.bottom - self.top


@dataclasses.dataclass(frozen=True)
class Block:
    """``boxes``: PaddleX may join blocks before it asks the VLM, whose text is then that of several boxes in order.
    ``doubtful``: as the answer says."""

    label: str
    boxes: tuple[Box, ...]
    content: str
    doubtful: bool = False

    @property
    def plain(self) -> str:
        """The words, formulas as LaTeX without their signs."""
        formulas = Formulas()
        return formulas.put_back_latex(MARKS.sub("", formulas.take_out(self.content))).strip()


def blocks_of(pruned: dict[str, Any]) -> Iterator[Block]:
    """The blocks with text of a ``prunedResult``, in reading order; with headers, footers and page numbers."""
    listed = pruned.get("parsing_res_list") or []
    boxes: dict[Any, list[Box]] = {}
    for number, block in enumerate(listed):
        boxes.setdefault(block.get("group_id", number), []).append(Box(*map(float, block["block_bbox"])))
    for number, block in enumerate(listed):
        content = writable(block.get("block_content") or "").strip()
        if content:
            group = block.get("group_id", number)
            own = Box(*map(float, block["block_bbox"]))
            doubtful = block.get("doubtful") is True
            yield Block(block["block_label"], tuple(boxes.pop(group, [own])), content, doubtful)


@dataclasses.dataclass(frozen=True)
class Source:
    """The document as it was submitted; ``format`` is ``PDF`` or Pillow's name of an image format."""

    path: Path
    format: str


@dataclasses.dataclass(frozen=True)
class ResultPage:
    """``text`` is Markdown. ``pictures`` maps the paths in ``text`` to pictures: base64, or the file that has them."""

    text: str
    pictures: Mapping[str, str | Path]

    def picture(self, path: str) -> bytes:
        content = self.pictures[path]
        return content.read_bytes() if isinstance(content, Path) else base64.b64decode(content)

    def picture_base64(self, path: str) -> str:
        content = self.pictures[path]
        return base64.b64encode(content.read_bytes()).decode() if isinstance(content, Path) else content


@dataclasses.dataclass(frozen=True)
class ResultDocument:
    """``stem`` is the name of its files without suffix; ``result`` is that of ``/layout-parsing``, written as JSON.

    Pictures that are files stand in ``result`` with their paths, others in base64. ``source`` is the document as it was
    submitted, ``numbers`` which of its pages these are (from 1; None: all).
    """

    stem: str
    pages: list[ResultPage]
    result: dict[str, Any]
    source: Source | None = None
    numbers: list[int] | None = None

    @classmethod
    def from_answer(cls, file_name: str, result: dict[str, Any]) -> ResultDocument:
        """From the ``result`` of an answer of ``/layout-parsing``, whose pictures are base64."""
        markdowns = [entry["markdown"] for entry in result["layoutParsingResults"]]
        pages = [ResultPage(writable(markdown["text"]), markdown.get("images") or {}) for markdown in markdowns]
        return cls(stem(file_name), with_own_pictures(pages), result)

    @classmethod
    def from_files(cls, file_name: str, result: dict[str, Any], files: Mapping[str, Path]) -> ResultDocument:
        """From a ``result`` whose pictures are keys of ``files``. A picture that ``files`` lacks is left out."""
        pages = [
            ResultPage(
                writable(entry["markdown"]["text"]),
                {key: files[path] for key, path in entry["markdown"].get("images", {}).items() if path in files},
            )
            for entry in result["layoutParsingResults"]
        ]
        return cls(stem(file_name), pages, result)


def with_own_pictures(pages: list[ResultPage]) -> list[ResultPage]:
    """The pages, with a name of its own for each picture: PaddleX names them by their boxes, so pictures in the same
    place of two pages have one name (PaddleOCR#18305)."""
    taken: set[str] = set()
    own = []
    for number, page in enumerate(pages, 1):
        names = {path: _numbered(path, number) for path in page.pictures if path in taken}
        if names:
            page = _renamed(page, names)
        taken |= page.pictures.keys()
        own.append(page)
    return own


def _renamed(page: ResultPage, names: dict[str, str]) -> ResultPage:
    text = re.sub("|".join(map(re.escape, names)), lambda match: names[match[0]], page.text)
    return ResultPage(text, {names.get(path, path): content for path, content in page.pictures.items()})


def _numbered(path: str, number: int) -> str:
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}page_{number:04d}_{name}"


def disposition(file_name: str, suffix: str) -> str:
    """The value of the header that names a download (RFC 6266), for the document of this name."""
    name = stem(file_name)
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", name)
    return f"attachment; filename=\"{plain}.{suffix}\"; filename*=UTF-8''{quote(name, safe='')}.{suffix}"


def stem(file_name: str) -> str:
    """A document's name without folders and suffix, as a file may be called on any system."""
    name = re.split(r"[/\\]", writable(file_name))[-1]
    return safe_name(re.sub(r"(?<=[^.])\.[^.]*$", "", name)) or "document"
