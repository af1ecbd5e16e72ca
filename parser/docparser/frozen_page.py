# SPDX-License-Identifier: Apache-2.0
"""A parsed page as plain data, so that it can wait outside the worker until all pages of its document are there."""

from __future__ import annotations

import base64
import binascii
import io
from typing import Any

from paddlex.inference.common.result import BaseResult
from paddlex.inference.pipelines.paddleocr_vl.result import PaddleOCRVLBlock, PaddleOCRVLResult
from PIL import Image

BLOCK_FIELDS = ("label", "bbox", "content", "group_id", "polygon_points")
PLAIN_FIELDS = ("width", "height", "page_count", "model_settings", "spotting_res", "imgs_in_doc")


def freeze(result: Any) -> dict:
    """Only built-in types and PIL images: it can be pickled and unpickled without Paddle."""
    frozen = {field: result.get(field) for field in PLAIN_FIELDS}
    frozen["model_settings"] = dict(frozen["model_settings"])
    for field in ("layout_det_res", "doc_preprocessor_res"):
        value = result.get(field)
        frozen[field] = value.json["res"] if isinstance(value, BaseResult) else None
    frozen["blocks"] = [
        {**{field: getattr(block, field) for field in BLOCK_FIELDS}, "image": block.image}
        for block in result["parsing_res_list"]
    ]
    return frozen


def thaw(frozen: dict, index: int) -> PaddleOCRVLResult:
    data = {key: value for key, value in frozen.items() if key != "blocks"}
    data.update(input_path=None, page_index=index, table_res_list=[], parsing_res_list=[])
    for fields in frozen["blocks"]:
        block = PaddleOCRVLBlock(**{field: fields[field] for field in BLOCK_FIELDS})
        block.image = fields["image"]
        data["parsing_res_list"].append(block)
    return PaddleOCRVLResult(data)


def from_client(pruned: dict, index: int) -> dict:
    """A ``prunedResult`` that a client sent back, as paddlex's restructure_pages() takes it."""
    return {"res": {"page_count": None, **pruned, "input_path": "", "page_index": index}}


def put_images_back(result: Any, images: dict[str, str]) -> None:
    """Gives the blocks of a page that came from a client their pictures again; ``images``: path -> base64.

    URLs and broken pictures are left out: this service fetches nothing.
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
