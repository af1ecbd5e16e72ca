# SPDX-License-Identifier: Apache-2.0
"""A parsed page as plain data, and as files: it waits outside the worker until all pages of its document are parsed."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import io
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from PIL import Image

from docparser.page.blocks import Blocks, BlockTexts
from docparser.page.paddlex_private import BaseResult, PaddleOCRVLBlock, PaddleOCRVLResult, construct_img_path
from docparser.page.places import Ground
from docparser.page.provenance import Provenance

BLOCK_FIELDS = ("label", "bbox", "group_id", "polygon_points")
NAME = "frozen.json"
PICTURE = "frozen-{:04d}.png"
NUMBERS = "biuf"  # kinds of dtypes (numpy.dtype.kind)


@dataclasses.dataclass(frozen=True)
class Known:
    """What is known of a block beside its text: how that came about; how many rows of its table are a head; what its
    places are found by. ``level``: of a heading among those of all pages, where these were joined; 0 of what is none.
    """

    provenance: Provenance = Provenance()
    head_rows: int = 0
    ground: Ground | None = None
    level: int = 0

    @classmethod
    def thawed(cls, frozen: dict[str, Any]) -> Known:
        """From the members of a frozen block."""
        return cls(Provenance.thawed(frozen), frozen["head_rows"], frozen.get("ground"))

    def frozen(self) -> dict[str, Any]:
        ground = {} if self.ground is None else {"ground": self.ground}
        return {"head_rows": self.head_rows, **self.provenance.frozen(), **ground}


@dataclasses.dataclass(frozen=True)
class Page:
    """PaddleX's result for a page with its texts, and what is known of each of its blocks. ``outlined``: these have the
    levels of headings."""

    result: PaddleOCRVLResult
    known: list[Known]
    outlined: bool = False


def freeze(
    found: dict[str, Any], figures: list[dict], blocks: list[dict[str, Any]], texts: BlockTexts | None = None
) -> dict[str, Any]:
    """The page as built-in types, numbers of numpy and PIL images, without Paddle. ``found``: PaddleX's fields of the
    page but for its blocks; ``figures``: the pictures on it; ``blocks``: of ``frozen_block``. With ``texts`` these
    have no text yet: it is read when the page is thawed."""
    plain = {field: value.json["res"] if isinstance(value, BaseResult) else value for field, value in found.items()}
    frozen = {**plain, "imgs_in_doc": figures, "blocks": blocks}
    if texts is not None:
        frozen["block_texts"] = {field.name: getattr(texts, field.name) for field in dataclasses.fields(texts)}
    return frozen


def frozen_block(label: str, box: Sequence[float], known: Known, **fields: Any) -> dict[str, Any]:
    """``fields``: those of a block that are not None, by PaddleX's names."""
    usual = {"label": label, "bbox": [int(side) for side in box], "group_id": None, "polygon_points": None}
    return {**usual, "image": None, **fields, **known.frozen()}


def frozen_blocks(blocks: Blocks, known: Mapping[int, Known]) -> list[dict[str, Any]]:
    """Those that the page shows. ``known``: by their numbers.

    A group has the place that its first block has among them, because PaddleX names other blocks by their places.
    """
    places: dict[int | None, int] = {number: place for place, number in enumerate(blocks.shown)}
    return [
        frozen_block(
            blocks.cut[number]["label"],
            blocks.cut[number]["box"],
            known[number],
            group_id=places.get(blocks.cut[number].get("group_id")),
            polygon_points=blocks.cut[number].get("polygon_points"),
            image=blocks.picture(number),
        )
        for number in blocks.shown
    ]


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
    data = {key: value for key, value in frozen.items() if key not in ("block_texts", "blocks")}
    if "block_texts" in frozen:
        read, data["spotting_res"] = BlockTexts(**frozen["block_texts"]).read()
        contents = [block.content for block in read]
    else:  # of a page that the VLM read whole
        contents = [fields["content"] for fields in frozen["blocks"]]
    data |= {"input_path": None, "page_index": index, "table_res_list": [], "parsing_res_list": []}
    known = []
    for fields, content in zip(frozen["blocks"], contents, strict=True):
        block = PaddleOCRVLBlock(**{field: fields[field] for field in BLOCK_FIELDS}, content=content)
        block.image = fields["image"]
        block.title_level = fields.get("title_level")  # PaddleX's; None: it finds it out
        data["parsing_res_list"].append(block)
        known.append(Known.thawed(fields))
    return Page(PaddleOCRVLResult(data), known)


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

    URLs, broken pictures and other kinds than answers have (ours JPEG, of other servers PNG too) are left out, so that
    strangers reach two decoders; this function fetches nothing.
    """
    for block in result["parsing_res_list"]:
        path = (block.image or {}).get("path")
        if path in images and block.image.get("img") is None:
            try:
                content = io.BytesIO(base64.b64decode(images[path], validate=True))
                picture = Image.open(content, formats=("JPEG", "PNG"))
                picture.load()
            except (binascii.Error, ValueError, OSError, Image.DecompressionBombError):
                block.image = None
            else:
                block.image["img"] = picture.convert("RGB")
        elif block.image is not None and block.image.get("img") is None:
            block.image = None


# ---- as files


def stored(frozen: dict[str, Any]) -> dict[str, bytes]:
    """The page as JSON, and its pictures as PNG, by the files' names. Whoever can write where they are kept can change
    what a page says, and make nothing run; a pickle would. Raises TypeError for what is neither plain nor a picture."""
    pictures: dict[int, Image.Image] = {}
    text = json.dumps(_plain(frozen, pictures), ensure_ascii=True, separators=(",", ":"))
    files = {NAME: text.encode()}
    for number, picture in enumerate(pictures.values()):
        content = io.BytesIO()
        picture.save(content, "PNG", compress_level=1)
        files[PICTURE.format(number)] = content.getvalue()
    return files


def restored(files: dict[str, bytes]) -> dict[str, Any]:
    """The page from all its files; what ``stored`` was given, to the last bit. Belongs into a child process."""
    pictures: list[Image.Image] = []
    while (content := files.get(PICTURE.format(len(pictures)))) is not None:
        picture = Image.open(io.BytesIO(content), formats=("PNG",))
        picture.load()
        pictures.append(picture)
    return _value(json.loads(files[NAME]), pictures)


def _plain(value: Any, pictures: dict[int, Image.Image]) -> Any:
    """``value`` as JSON has it. What JSON does not know is an object with one member, whose name begins with ``$``."""
    if value is None or type(value) in (bool, int, float):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, list):
        return [_plain(item, pictures) for item in value]
    if isinstance(value, dict):
        if all(type(key) is str and key[:1] != "$" for key in value):
            return {key: _plain(item, pictures) for key, item in value.items()}
        return {"$map": [[_plain(key, pictures), _plain(item, pictures)] for key, item in value.items()]}
    if isinstance(value, tuple):
        return {"$tuple": [_plain(item, pictures) for item in value]}
    if isinstance(value, (set, frozenset)):
        return {"$set": [_plain(item, pictures) for item in sorted(value)]}
    if isinstance(value, Image.Image):
        pictures.setdefault(id(value), value)
        return {"$picture": list(pictures).index(id(value))}
    if isinstance(value, (np.generic, np.ndarray)) and value.dtype.kind in NUMBERS:
        shape = None if isinstance(value, np.generic) else value.shape
        return {"$numbers": [value.dtype.str, shape, base64.b64encode(value.tobytes()).decode()]}
    raise TypeError(f"a frozen page has a {type(value).__name__}, which cannot be stored")


def _value(plain: Any, pictures: list[Image.Image]) -> Any:
    if isinstance(plain, list):
        return [_value(item, pictures) for item in plain]
    if not isinstance(plain, dict):
        return plain
    if len(plain) != 1 or not (name := next(iter(plain))).startswith("$"):
        return {key: _value(item, pictures) for key, item in plain.items()}
    (inside,) = plain.values()
    if name == "$map":
        return {_value(key, pictures): _value(item, pictures) for key, item in inside}
    if name == "$tuple":
        return tuple(_value(item, pictures) for item in inside)
    if name == "$set":
        return frozenset(_value(item, pictures) for item in inside)
    if name == "$picture":
        return pictures[inside]
    if name == "$numbers":
        return _numbers(*inside)
    raise ValueError(f"a stored page has no {name}")


def _numbers(dtype: str, shape: list[int] | None, content: str) -> np.generic | np.ndarray:
    kind = np.dtype(dtype)
    if kind.kind not in NUMBERS:
        raise ValueError(f"{dtype} are no numbers")
    flat = np.frombuffer(base64.b64decode(content), kind)
    return flat[0] if shape is None else flat.reshape(shape).copy()
