# SPDX-License-Identifier: Apache-2.0
"""The VLM alone reads a page: one picture, one prompt, one answer. Loads no Paddle."""

from __future__ import annotations

import base64
import dataclasses
import functools
from typing import Any

import cv2
import numpy as np

from docparser.contract.answers import NotedBlock
from docparser.layout.served import LayoutServer
from docparser.page.notes import page_notes
from docparser.page.provenance import Certainty
from docparser.page.question import VlmCalls
from docparser.page.run import PageReading, PageRun, Picture
from docparser.settings import Settings
from docparser.vlm.client import Reply, VlmClient
from docparser.vlm.repetition import PAGE
from docparser.weights import pipeline_file, served_model
from docparser.whole_page.blocks import WholePageBlock, blocks_of, formula_of, texts_of
from docparser.whole_page.recipe import FORMULA, SPOTTING, Recipe

QUALITY = 95  # of the JPEG that is sent: letters keep their edges, at a fraction of a PNG's bytes
# Keywords of the pipeline -> fields of a chat completion. What nobody asks for is as models.yaml has it at the server.
FIELDS = {"temperature": "temperature", "top_p": "top_p", "repetition_penalty": "repetition_penalty"}
LIMITS = ("min_pixels", "max_pixels")
COLOR = (0, 96, 255)  # of the boxes, blue first


class WholePageReader:
    """A PageReader. The answer to spotting has a box for each text, other answers have none."""

    layout_engine = ""
    layout_server: LayoutServer | None = None

    def __init__(self, settings: Settings) -> None:
        """Raises NotReady if the recipe cannot be used."""
        self._recipe = Recipe.load(pipeline_file(settings), served_model(settings).tasks)
        self._doubtful_below = settings.doubtful_below if settings.confidence else None
        # A whole page may take as long as a page may; the bound of a crop is not for it.
        self.vlm = VlmCalls(VlmClient(settings, settings.page_timeout_s), settings.vlm_model_name)

    def warm_up(self) -> None:
        """Nothing is slower the first time."""

    def read(self, page: np.ndarray, options: dict[str, Any], run: PageRun) -> PageReading:
        task = options.get("prompt_label") or self._recipe.usual
        request = self._request(page, task, options)
        call = run.calling(self.vlm.start(f"{run.request_id}-b0", lambda calls: calls.one(request, PAGE)))
        try:
            reply = run.replies({0: call})[0]
        finally:
            run.end_calls()
        height, width = page.shape[:2]
        blocks, troubles = self._blocks(task, reply, (width, height))
        frozen = {
            "width": width,
            "height": height,
            "page_count": None,
            "model_settings": settings_of(task, options),
            "imgs_in_doc": [],
            "layout_det_res": None,
            "doc_preprocessor_res": None,
            "blocks": [
                block.frozen() | {"certainty": certainty and dataclasses.asdict(certainty)}
                for block, certainty in zip(blocks, self._certainties(reply, len(blocks)))
            ],
            "spotting_res": spotting_of(blocks) if task == SPOTTING else {},
        }
        return PageReading(
            frozen,
            _block_notes(reply, troubles, len(blocks)),
            page_notes(page, None, [reply.text], squeezed=True),
            functools.partial(drawn, page, blocks),
        )

    def _request(self, image: np.ndarray, task: str, predict: dict[str, Any]) -> dict[str, Any]:
        """The fields of a chat completion but for the model."""
        bounds = {name: predict[name] for name in LIMITS if predict.get(name) is not None}
        url = data_url(image, min(self._recipe.max_pixels, bounds.get("max_pixels") or self._recipe.max_pixels))
        picture = {"type": "image_url", "image_url": {"url": url}}
        text = {"type": "text", "text": self._recipe.prompts[task]}
        return {
            "messages": [{"role": "user", "content": [picture, text]}],
            "max_tokens": predict.get("max_new_tokens") or self._recipe.max_tokens,
            **{field: predict[name] for name, field in FIELDS.items() if predict.get(name) is not None},
            **({"mm_processor_kwargs": bounds} if bounds else {}),
        }

    def _certainties(self, reply: Reply, blocks: int) -> list[Certainty | None]:
        """One answer has one confidence, which all its blocks get. What cuts a text makes its last block doubtful."""
        if self._doubtful_below is None or not blocks:
            return [None] * blocks
        whole = Certainty.of(dataclasses.replace(reply, note=None), self._doubtful_below)
        return [*[whole] * (blocks - 1), Certainty.of(reply, self._doubtful_below)]

    def _blocks(self, task: str, reply: Reply, size: tuple[int, int]) -> tuple[list[WholePageBlock], str | None]:
        """The answer's blocks, and what is wrong with their places."""
        if task == SPOTTING:
            return texts_of(reply.text, self._recipe.places, size)
        read = formula_of if task == FORMULA else blocks_of
        return read(reply.text, (0, 0, *size)), None


def data_url(image: np.ndarray, most_pixels: int) -> str:
    """The page as JPEG, made smaller where it has more pixels; places in an answer are parts of it, so they stay."""
    height, width = image.shape[:2]
    factor = (most_pixels / (width * height)) ** 0.5
    if factor < 1:
        size = max(1, int(width * factor)), max(1, int(height * factor))
        image = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
    _, data = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
    return f"data:image/jpeg;base64,{base64.b64encode(data.tobytes()).decode('ascii')}"


def settings_of(task: str, predict: dict[str, Any]) -> dict[str, Any]:
    """``model_settings`` of a prunedResult, with PaddleX's names; ``prompt_label`` is how the page was read."""
    return {
        "use_doc_preprocessor": False,
        "use_layout_detection": False,
        "use_chart_recognition": False,
        "use_seal_recognition": False,
        "use_ocr_for_image_block": False,
        "format_block_content": bool(predict.get("format_block_content")),
        "merge_layout_blocks": False,
        "markdown_ignore_labels": predict.get("markdown_ignore_labels") or [],
        "prompt_label": task,
    }


def spotting_of(blocks: list[WholePageBlock]) -> dict[str, list]:
    """``spotting_res`` as PaddleOCR-VL-1.5 gives it: each text with its four corners, clockwise from the upper left."""
    boxes = [block.box for block in blocks]
    corners = [[[left, top], [right, top], [right, bottom], [left, bottom]] for left, top, right, bottom in boxes]
    return {"rec_polys": corners, "rec_texts": [block.content for block in blocks]}


def drawn(image: np.ndarray, blocks: list[WholePageBlock]) -> dict[str, Picture]:
    """The page with the boxes of its blocks, under PaddleX's name for that picture."""
    page, (height, width) = image.copy(), image.shape[:2]
    thickness = max(1, max(height, width) // 800)
    for left, top, right, bottom in dict.fromkeys(block.box for block in blocks):
        cv2.rectangle(page, (left, top), (right - 1, bottom - 1), COLOR, thickness)
    return {"layout_det_res": page}


def _block_notes(reply: Reply, troubles: str | None, blocks: int) -> list[NotedBlock]:
    """What cuts a text cuts its end, so it belongs to the last block."""
    last = blocks - 1 if blocks else None
    notes: list[NotedBlock] = []
    if reply.note:
        notes.append({"block_id": last, "kind": reply.note.kind, "message": reply.note.message})
    if troubles:
        notes.append({"block_id": None, "kind": "place", "message": troubles})
    return notes
