# SPDX-License-Identifier: Apache-2.0
"""The result of a parsed document as every format is made from it."""

from __future__ import annotations

import base64
import dataclasses
import json
import mimetypes
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from docparser.convert.names import stem, writable
from docparser.convert.parts import NO_OUTLINE, PageOutline, Part, of_markdown, outline_of, parts_of


@dataclasses.dataclass(frozen=True)
class Source:
    """The document as it was submitted; ``format`` is ``PDF`` or Pillow's name of an image format."""

    path: Path
    format: str


@dataclasses.dataclass(frozen=True)
class ResultPage:
    """``text`` is Markdown. ``pictures`` maps the paths in ``text`` to pictures: base64, or the file that has them.
    ``written``: the page as the other formats have it; None of a page that is Markdown alone."""

    text: str
    pictures: Mapping[str, str | Path]
    written: tuple[Part, ...] | None = None

    @classmethod
    def from_entry(
        cls, entry: Mapping[str, Any], pictures: Mapping[str, str | Path], outline: PageOutline | None = None
    ) -> ResultPage:
        """``entry`` is that of a page in an answer, ``outline`` its part of the document's (``parts.Levels``)."""
        return cls(writable(entry["markdown"]["text"]), pictures, parts_of(entry, pictures, outline))

    @property
    def parts(self) -> tuple[Part, ...]:
        return of_markdown(self.text) if self.written is None else self.written

    def picture(self, path: str) -> bytes:
        content = self.pictures[path]
        return content.read_bytes() if isinstance(content, Path) else base64.b64decode(content)

    def data_url(self, path: str) -> str:
        """The picture itself as a URL."""
        content = self.pictures[path]
        base64_text = base64.b64encode(content.read_bytes()).decode() if isinstance(content, Path) else content
        return f"data:{mimetypes.guess_type(path)[0] or 'image/jpeg'};base64,{base64_text}"


@dataclasses.dataclass(frozen=True)
class ResultDocument:
    """``stem`` is the name of its files without suffix; ``result`` is that of ``/layout-parsing``, written as JSON.

    Pictures that are files stand in ``result`` with their paths in an archive, others in base64. ``source`` is the
    document as it was submitted, ``numbers`` which of its pages these are (from 1; None: all), ``missing`` those that
    were not read, or in vain.
    """

    stem: str
    pages: list[ResultPage]
    result: dict[str, Any]
    source: Source | None = None
    numbers: list[int] | None = None
    missing: Collection[int] = ()

    @classmethod
    def read(cls, args: Mapping[str, Any], source: BinaryIO) -> ResultDocument:
        """What a job of a child process is given: ``args`` has the ``name`` of the document's file, ``source`` is JSON
        with the ``result`` of an answer. ``how``, if ``args`` has it, has the fields of How.

        The JSON has ``files`` where its pictures are keys of files (the paths by these keys). It or ``args`` has the
        ``numbers`` of the pages where they are not all, and the JSON those of pages that are ``missing``.
        """
        answer = json.load(source)
        outline = args.get("how", {}).get("outline", True)
        if "files" in answer:
            files = {key: Path(path) for key, path in answer["files"].items()}
            document = cls.from_files(args["name"], answer["result"], files, outline=outline)
        else:
            document = cls.from_answer(args["name"], answer["result"], outline=outline)
        reports = answer["result"].get("docparser", {}).get("pages", ())
        missing = [*answer.get("missing", ()), *(report["page"] for report in reports if "error" in report)]
        return dataclasses.replace(document, numbers=answer.get("numbers", args.get("numbers")), missing=missing)

    @classmethod
    def from_answer(cls, file_name: str, result: dict[str, Any], *, outline: bool = True) -> ResultDocument:
        """From the ``result`` of an answer of ``/layout-parsing``, whose pictures are base64."""
        pages = [
            ResultPage.from_entry(entry, entry["markdown"].get("images") or {}, levels)
            for entry, levels in _outlined(result, outline)
        ]
        return cls(stem(file_name), with_own_pictures(pages), result)

    @classmethod
    def from_files(
        cls, file_name: str, result: dict[str, Any], files: Mapping[str, Path], *, outline: bool
    ) -> ResultDocument:
        """From a ``result`` whose pictures are keys of ``files``. Pictures that ``files`` lacks are left out, and those
        of whole pages, which no other format has."""
        pages = [
            ResultPage.from_entry(
                entry,
                {key: files[path] for key, path in entry["markdown"].get("images", {}).items() if path in files},
                levels,
            )
            for entry, levels in _outlined(result, outline)
        ]
        entries = [
            {key: value for key, value in entry.items() if key not in ("inputImage", "outputImages")}
            | {"markdown": entry["markdown"] | {"images": {path: path for path in page.pictures}}}
            for entry, page in zip(result["layoutParsingResults"], pages, strict=True)
        ]
        return cls(stem(file_name), pages, result | {"layoutParsingResults": entries})

    def numbered(self) -> Iterator[tuple[int, ResultPage]]:
        """The pages with their numbers."""
        return zip(self.numbers or range(1, len(self.pages) + 1), self.pages, strict=True)

    def with_missing(self) -> ResultDocument:
        """With a page for each that is missing, which says so: nobody takes the rest for the whole document."""
        if not self.missing:
            return self
        pages = dict(self.numbered())
        for number in self.missing:
            said = Part("text", f"Page {number} is missing.")
            pages[number] = ResultPage(f"<!-- page {number} is missing -->", {}, (said,))
        numbers = sorted(pages)
        return dataclasses.replace(self, pages=[pages[number] for number in numbers], numbers=numbers)

    def entries(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """The pages' numbers and entries."""
        found = self.result["layoutParsingResults"]
        return zip(self.numbers or range(1, len(found) + 1), found, strict=True)


def _outlined(result: dict[str, Any], outline: bool) -> Iterator[tuple[dict[str, Any], PageOutline | None]]:
    """The entries of pages, each with its part of the document's outline."""
    entries = result["layoutParsingResults"]
    found = outline_of(enumerate(entries, 1)) if outline else NO_OUTLINE
    return ((entry, found.get(number)) for number, entry in enumerate(entries, 1))


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
    pictures = {names.get(path, path): content for path, content in page.pictures.items()}
    return ResultPage(text, pictures, page.written and tuple(part.renamed(names) for part in page.written))


def _numbered(path: str, number: int) -> str:
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}page_{number:04d}_{name}"
