# SPDX-License-Identifier: Apache-2.0
"""A parsed page as plain data, which waits outside the worker until all pages of its document are parsed."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import io
import re
from typing import Any

from PIL import Image

from docparser.page.answers import Answers
from docparser.page.blocks import Blocks
from docparser.page.ground import Ground
from docparser.page.paddlex_private import BaseResult, PaddleOCRVLBlock, PaddleOCRVLResult, construct_img_path
from docparser.page.provenance import Provenance

BLOCK_FIELDS = ("label", "bbox", "group_id", "polygon_points")


@dataclasses.dataclass(frozen=True)
class Page:
    """PaddleX's result for a page with its texts, and what is known of how each of its texts came about. ``heads``: of
    each block, how many rows of its table are a head. ``outline``: the levels of its headings by their places among its
    blocks, where pages were joined. ``grounds``: of each block, what its places are found by; None where nobody asked.
    """

    result: PaddleOCRVLResult
    provenance: list[Provenance]
    heads: list[int]
    outline: dict[int, int] | None = None
    grounds: list[Ground | None] | None = None


def freeze(
    found: dict[str, Any],
    blocks: Blocks,
    figures: list[dict],
    answers: Answers,
    provenance: dict[int, Provenance],
    heads: dict[int, int],
    grounds: dict[int, Ground] | None = None,
) -> dict[str, Any]:
    """The page as built-in types, numbers of numpy and PIL images (``page.stored``), without Paddle. Its blocks have no
    text; their answers are read when it is thawed. ``found``: PaddleX's fields of the page but for its blocks;
    ``figures``: the pictures on it; by the blocks' numbers, ``heads``: rows of tables' heads, and ``grounds``."""
    plain = {field: value.json["res"] if isinstance(value, BaseResult) else value for field, value in found.items()}
    return {
        **plain,
        "imgs_in_doc": figures,
        "blocks": [
            {
                "label": blocks.cut[number]["label"],
                "bbox": [int(side) for side in blocks.cut[number]["box"]],
                "group_id": blocks.cut[number].get("group_id"),
                "polygon_points": blocks.cut[number].get("polygon_points"),
                "image": blocks.picture(number),
                "head_rows": heads.get(number, 0),
                **provenance.get(number, Provenance()).frozen(),
                **({} if grounds is None else {"ground": grounds.get(number)}),
            }
            for number in blocks.shown
        ],
        "answers": {field.name: getattr(answers, field.name) for field in dataclasses.fields(answers)},
    }


def pictures_of(frozen: dict) -> dict[str, Any]:
    """The pictures that the Markdown of a page shows, by their paths, as PaddleX's MarkdownConverter collects them."""
    images = [block["image"] for block in frozen["blocks"] if block["image"] is not None]
    return {image["path"]: image["img"] for image in [*images, *(frozen["imgs_in_doc"] or [])]}


def without_pictures(frozen: dict) -> dict:
    """The page for what reads its text alone."""
    blocks = [{**block, "image": block["image"] and {**block["image"], "img": None}} for block in frozen["blocks"]]
    return {**frozen, "blocks": blocks, "imgs_in_doc": []}


def thaw(frozen: dict, index: int) -> Page:
    """The page with its text. Computes over what the VLM wrote, so it belongs into a child process."""
    data = {key: value for key, value in frozen.items() if key not in ("answers", "blocks")}
    if "answers" in frozen:
        read, data["spotting_res"] = Answers(**frozen["answers"]).read()
        contents = [block.content for block in read]
    else:  # of a page that the VLM read whole
        contents = [fields["content"] for fields in frozen["blocks"]]
    data |= {"input_path": None, "page_index": index, "table_res_list": [], "parsing_res_list": []}
    provenance, heads = [], []
    for fields, content in zip(frozen["blocks"], contents, strict=True):
        block = PaddleOCRVLBlock(**{field: fields[field] for field in BLOCK_FIELDS}, content=content)
        block.image = fields["image"]
        block.title_level = fields.get("title_level")  # PaddleX's; None: it finds it out
        data["parsing_res_list"].append(block)
        provenance.append(Provenance.thawed(fields))
        heads.append(fields.get("head_rows", 0))  # a page of an older release has none, nor one that the VLM read whole
    asked = any("ground" in fields for fields in frozen["blocks"])
    grounds = [fields.get("ground") for fields in frozen["blocks"]] if asked else None
    return Page(PaddleOCRVLResult(data), provenance, heads, grounds=grounds)


def from_client(pruned: dict, index: int) -> dict:
    """A ``prunedResult`` that a client sent back, as paddlex's restructure_pages() takes it."""
    return {"res": {"page_count": None, **pruned, "input_path": "", "page_index": index}}


def with_own_pictures(pages: list[tuple[dict, dict[str, str]]]) -> list[tuple[dict, dict[str, str]]]:
    """``(prunedResult, images)`` of pages that are to become one, with a name of its own for each picture.

    PaddleX names pictures by their boxes: of pictures in the same place of two pages, one would be lost and the other
    shown twice (PaddleOCR#18305).
    """
    taken: set[str] = set()
    own = []
    for number, (pruned, images) in enumerate(pages, 1):
        names = {path: path.replace("imgs/", f"imgs/page_{number:04d}_", 1) for path in images if path in taken}
        if names:
            pruned = {**pruned, "parsing_res_list": [_renamed(block, names) for block in pruned["parsing_res_list"]]}
            images = {names.get(path, path): picture for path, picture in images.items()}
        taken |= images.keys()
        own.append((pruned, images))
    return own


def _renamed(block: dict, names: dict[str, str]) -> dict:
    """A block that names pictures in its text, or is one."""
    mentions = "|".join(map(re.escape, names))
    block = {**block, "block_content": re.sub(mentions, lambda match: names[match[0]], block["block_content"])}
    path = construct_img_path(block["block_label"], block["block_bbox"])
    return {**block, "image": {"path": names[path], "img": None}} if path in names else block


def put_images_back(result: Any, images: dict[str, str]) -> None:
    """Put the pictures back into the blocks of a page that a client sent; ``images``: path -> base64.

    URLs and broken pictures are left out; this function fetches nothing.
    """
    for block in result["parsing_res_list"]:
        path = (block.image or {}).get("path")
        if path in images and block.image.get("img") is None:
            try:
                picture = Image.open(io.BytesIO(base64.b64decode(images[path], validate=True)))
                picture.load()
            except (binascii.Error, ValueError, OSError):
                block.image = None
            else:
                block.image["img"] = picture.convert("RGB")
        elif block.image is not None and block.image.get("img") is None:
            block.image = None
