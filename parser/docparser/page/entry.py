# SPDX-License-Identifier: Apache-2.0
"""From a page to its entry in ``layoutParsingResults``."""

from __future__ import annotations

import base64
import tempfile
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from PIL import Image

from docparser.contract.answers import PageEntry, TableHead, WordFile
from docparser.contract.schemas import OutputOptions, ParseOptions
from docparser.page.frozen import Page
from docparser.page.paddlex_private import PaddleOCRVLResult, markdown_of
from docparser.page.places import places_of
from docparser.page.provenance import add_members

NOT_FOR_CLIENTS = ("input_path", "page_index")


def page_entry(page: Page, number: int, options: OutputOptions, *, max_side: int) -> PageEntry:
    """``prunedResult``, ``markdown`` and ``exports`` of page ``number`` (from 1); pictures are added separately."""
    markdown = markdown_of(page.result, pretty=options.prettifyMarkdown, formula_numbers=options.showFormulaNumber)
    entry: PageEntry = {
        "prunedResult": prune(page.result.json["res"]),
        "markdown": {"text": markdown["markdown_texts"]},
    }
    blocks = entry["prunedResult"]["parsing_res_list"]
    add_members(blocks, (known.provenance for known in page.known))
    heads: list[TableHead] = [
        {"block_id": block["block_id"], "rows": known.head_rows}
        for block, known in zip(blocks, page.known)
        if known.head_rows
    ]
    if heads:
        entry["tableHeads"] = heads
    if isinstance(options, ParseOptions) and options.places:
        entry["places"] = places_of(blocks, [known.ground for known in page.known], options.places)
    if page.outlined:
        # Not of ``block_content``, which has Markdown's marks with ``formatBlockContent``.
        entry["outline"] = [
            {"block_id": block["block_id"], "level": known.level, "text": " ".join(read.content.split())}
            for block, known, read in zip(blocks, page.known, page.result["parsing_res_list"])
            if known.level
        ]
    if options.returnMarkdownImages:
        entry["markdown"]["images"] = encoded(markdown["markdown_images"], max_side)
    if options.wants_word:
        entry["exports"] = {"docx": docx_export(page.result, number)}
    return entry


def encoded(images: dict[str, Any], max_side: int) -> dict[str, str]:
    """Pictures as base64 JPEG; those that are missing are left out."""
    return {path: encode_jpeg(image, max_side) for path, image in images.items() if image is not None}


def pictures(drawn: dict[str, Any], image: np.ndarray, *, max_side: int) -> dict:
    """The page, and the page with what was found drawn on it, as base64 JPEG: ``inputImage`` and ``outputImages``."""
    return {"inputImage": encode_jpeg(image, max_side), "outputImages": encoded(drawn, max_side)}


def prune(value: Any) -> Any:
    """``value`` without fields that are of use on this machine only, at every level (PaddleX's ``prune_result``)."""
    if isinstance(value, dict):
        return {key: prune(item) for key, item in value.items() if key not in NOT_FOR_CLIENTS}
    if isinstance(value, list):
        return [prune(item) for item in value]
    return value


def encode_jpeg(image: Image.Image | np.ndarray, max_side: int) -> str:
    """A PIL image, or uint8 ``[height, width, 3]`` with blue first, as base64 JPEG of at most ``max_side`` pixels."""
    if isinstance(image, Image.Image):
        # A reversed view would take fifteen times as long to copy.
        image = cv2.cvtColor(np.asarray(image.convert("RGB")), cv2.COLOR_RGB2BGR)
    height, width = image.shape[:2]
    factor = max_side / max(height, width)
    if factor < 1:
        size = max(1, round(width * factor)), max(1, round(height * factor))
        image = cv2.resize(np.ascontiguousarray(image), size, interpolation=cv2.INTER_AREA)
    _, data = cv2.imencode(".jpg", np.ascontiguousarray(image))
    return base64.b64encode(data.tobytes()).decode("ascii")


def docx_export(result: PaddleOCRVLResult, number: int) -> WordFile:
    """The page as a Word file: ``{content: base64, fileName}``."""
    with tempfile.TemporaryDirectory(prefix="docparser-") as folder:
        result.save_to_word(folder)  # it chooses the file's name
        (path,) = Path(folder).glob("*.docx")
        return {"content": base64.b64encode(path.read_bytes()).decode("ascii"), "fileName": f"page_{number}.docx"}
