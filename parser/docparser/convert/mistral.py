# SPDX-License-Identifier: Apache-2.0
"""A result as Mistral's OCR API answers it (``contract.ocr``)."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from docparser.convert.blocks import all_blocks
from docparser.convert.document import ResultDocument, ResultPage
from docparser.convert.parts import BOX_IN_NAME, CAPTIONS, PICTURES, Paths
from docparser.convert.to_markdown import with_pictures
from docparser.outline import TITLES

CORNERS = ("top_left_x", "top_left_y", "bottom_right_x", "bottom_right_y")
BLOCK_TYPES = {
    **dict.fromkeys(TITLES, "title"),
    **dict.fromkeys(CAPTIONS, "caption"),
    **dict.fromkeys(("display_formula", "inline_formula", "formula", "formula_number"), "equation"),
    **dict.fromkeys(("reference", "reference_content"), "references"),
    **dict.fromkeys(("footer", "number"), "footer"),
    "header": "header",
    "table": "table",
    "algorithm": "code",
    "aside_text": "aside_text",
}


def convert_answer(args: dict[str, Any], source: BinaryIO, sink: BinaryIO) -> None:
    """A job of a child process: writes ``OcrAnswer``.

    ``args``: those of ``ResultDocument.read``; ``model``, ``dpi`` and ``size`` (bytes of the document) as the answer
    has them; ``wanted``, the request's fields that say what is wanted of a page.
    """
    document = ResultDocument.read(args, source)
    ids = (f"img-{number}.jpeg" for number in itertools.count())
    left = args["wanted"].get("image_limit")
    sink.write(b'{"pages": [')
    for place, ((number, entry), page) in enumerate(zip(document.entries(), document.pages, strict=True)):
        named = dict(zip(itertools.islice(_kept(page, args["wanted"]), left), ids, strict=False))
        left = None if left is None else left - len(named)
        said = _page(number - 1, entry, page, named, args)
        sink.write((", " if place else "").encode() + json.dumps(said, ensure_ascii=False).encode("utf-8", "replace"))
    rest = {
        "model": args["model"],
        "document_annotation": None,
        "usage_info": {"pages_processed": len(document.pages), "doc_size_bytes": args["size"]},
        "docparser": document.result["docparser"],
    }
    sink.write(b"], " + json.dumps(rest, ensure_ascii=False).encode("utf-8", "replace")[1:])


def _kept(page: ResultPage, wanted: Mapping[str, Any]) -> Iterator[str]:
    """The paths of those pictures that are not too small."""
    least = wanted.get("image_min_size") or 0
    for path in page.pictures:
        corners = _corners(path)
        if corners is None or min(corners[2] - corners[0], corners[3] - corners[1]) >= least:
            yield path


def _corners(path: str) -> list[int] | None:
    place = BOX_IN_NAME.search(path)
    return [int(side) for side in place[1].split("_")[1:]] if place else None


def _page(
    index: int, entry: dict[str, Any], page: ResultPage, named: dict[str, str], args: dict[str, Any]
) -> dict[str, Any]:
    """``named``: the ids of the page's pictures by their paths; others are left out."""
    wanted, pruned = args["wanted"], entry["prunedResult"]
    sizes = pruned.get("width"), pruned.get("height")
    images = [
        {
            "id": name,
            **(dict(zip(CORNERS, corners, strict=True)) if (corners := _corners(path)) else dict.fromkeys(CORNERS)),
            "image_base64": page.data_url(path) if wanted.get("include_image_base64") else None,
        }
        for path, name in named.items()
    ]
    said: dict[str, Any] = {
        "index": index,
        "markdown": with_pictures(page, lambda path: f"![{named[path]}]({named[path]})" if path in named else ""),
        "images": images,
        "dimensions": {"dpi": args["dpi"], "height": int(sizes[1]), "width": int(sizes[0])} if all(sizes) else None,
    }
    for label in ("header", "footer"):
        if wanted.get(f"extract_{label}"):
            said[label] = "\n".join(b.content for b in all_blocks(pruned) if b.label == label and b.content) or None
    if wanted.get("include_blocks"):
        said["blocks"] = list(_blocks(pruned, named))
    return said


def _blocks(pruned: dict[str, Any], named: dict[str, str]) -> Iterator[dict[str, Any]]:
    paths = Paths(named)
    for block in all_blocks(pruned):
        box = block.boxes[0]
        corners = [int(side) for side in box]
        said: dict[str, Any] = {"type": BLOCK_TYPES.get(block.label, "text"), "content": block.content}
        if block.label in PICTURES and (path := paths.of_box(box)):
            said |= {"type": "image", "image_id": named[path], "content": f"![{named[path]}]({named[path]})"}
        elif not block.content:
            continue
        yield said | dict(zip(CORNERS, corners, strict=True))
