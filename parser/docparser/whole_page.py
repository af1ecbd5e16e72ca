# SPDX-License-Identifier: Apache-2.0
"""The VLM alone reads a page: one picture, one prompt, one answer. Loads no Paddle."""

from __future__ import annotations

import base64
import dataclasses
import functools
import re
from collections.abc import Iterator
from typing import Any

import cv2
import numpy as np

from docparser.contract.answers import NotedBlock
from docparser.contract.schemas import ParseOptions
from docparser.layout.served import LayoutServer
from docparser.page.frozen import Known, freeze, frozen_block
from docparser.page.notes import page_notes
from docparser.page.provenance import Certainty, Provenance
from docparser.page.question import VlmCalls
from docparser.page.run import PageReading, PageRun, PageTask, Picture
from docparser.settings import Settings
from docparser.vlm.client import Reply, VlmClient
from docparser.vlm.repetition import PAGE
from docparser.weights import FORMULA, SPOTTING, Recipe, pipeline_file, served_model

PixelSides = tuple[int, int, int, int]  # left, top, right, bottom in pixels of the page
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
SPOT = re.compile(rf"\({NUMBER},{NUMBER}\)[ ]{{0,3}},[ ]{{0,3}}\({NUMBER},{NUMBER}\)")
QUALITY = 95  # of the JPEG that is sent: letters keep their edges, at a fraction of a PNG's bytes
COLOR = (0, 96, 255)  # of the boxes, blue first


@dataclasses.dataclass(frozen=True)
class WholePageBlock:
    """``label`` is one of the layout classes. ``box`` is that of the page where the answer does not say it.
    ``title_level``: 1 for what Markdown calls ``##``, of paragraph titles."""

    label: str
    content: str
    box: PixelSides
    title_level: int | None = None

    def frozen(self, certainty: Certainty | None) -> dict[str, Any]:
        known = Known(Provenance(certainty))
        return frozen_block(self.label, self.box, known, content=self.content, title_level=self.title_level)


def blocks_in(markdown: str, page: PixelSides) -> list[WholePageBlock]:
    """In reading order. Each has the box of the page, since Markdown says no places."""
    return list(_blocks(_bare(markdown), page))


def formula_of(latex: str, page: PixelSides) -> list[WholePageBlock]:
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


def _blocks(markdown: str, page: PixelSides) -> Iterator[WholePageBlock]:
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


def _paragraphs(text: str, page: PixelSides) -> Iterator[WholePageBlock]:
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
    for place in SPOT.finditer(answer):
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


def _box_of(corners: list[float], ends: int, size: tuple[int, int]) -> PixelSides | None:
    """The box in pixels, cut to the page; None where nothing of it is left."""
    left, right = sorted(_pixel(corner, ends, size[0]) for corner in corners[0::2])
    top, bottom = sorted(_pixel(corner, ends, size[1]) for corner in corners[1::2])
    return (left, top, right, bottom) if left < right and top < bottom else None


def _pixel(corner: float, ends: int, pixels: int) -> int:
    return round(min(max(corner / ends, 0.0), 1.0) * pixels)


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

    def read(self, task: PageTask, run: PageRun) -> PageReading:
        page, options = task.picture, task.options
        label = options.promptLabel or self._recipe.usual
        request = self._request(page, label, options)
        call = run.calling(self.vlm.start(f"{task.request_id}-b0", lambda calls: calls.one(request, PAGE)))
        try:
            replied = run.replies({0: call})
        finally:
            run.end_calls()
        reply = replied.replies[0]
        height, width = page.shape[:2]
        blocks, troubles = self._blocks(label, reply, (width, height))
        found = {
            "width": width,
            "height": height,
            "page_count": None,
            "model_settings": settings_of(label, options),
            "layout_det_res": None,
            "doc_preprocessor_res": None,
            "spotting_res": spotting_of(blocks) if label == SPOTTING else {},
        }
        certainties = self._certainties(reply, len(blocks))
        return PageReading(
            freeze(found, [], [block.frozen(certain) for block, certain in zip(blocks, certainties)]),
            _block_notes(reply, troubles, len(blocks)),
            page_notes(page, None, [reply.text], squeezed=True),
            functools.partial(drawn, page, blocks),
            replied.answered,
            replied.tokens,
            replied.waited_s,
        )

    def _request(self, image: np.ndarray, task: str, options: ParseOptions) -> dict[str, Any]:
        """The fields of a chat completion but for the model. What nobody asks for is as models.yaml has it."""
        bounds = _said(min_pixels=options.minPixels, max_pixels=options.maxPixels)
        url = data_url(image, min(self._recipe.max_pixels, options.maxPixels or self._recipe.max_pixels))
        picture = {"type": "image_url", "image_url": {"url": url}}
        text = {"type": "text", "text": self._recipe.prompts[task]}
        sampling = _said(
            temperature=options.temperature, top_p=options.topP, repetition_penalty=options.repetitionPenalty
        )
        return {
            "messages": [{"role": "user", "content": [picture, text]}],
            "max_tokens": options.maxNewTokens or self._recipe.max_tokens,
            **sampling,
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
        read = formula_of if task == FORMULA else blocks_in
        return read(reply.text, (0, 0, *size)), None


def _said(**values: float | None) -> dict[str, float]:
    return {name: value for name, value in values.items() if value is not None}


def data_url(image: np.ndarray, most_pixels: int) -> str:
    """The page as JPEG, made smaller where it has more pixels; places in an answer are parts of it, so they stay."""
    height, width = image.shape[:2]
    factor = (most_pixels / (width * height)) ** 0.5
    if factor < 1:
        size = max(1, int(width * factor)), max(1, int(height * factor))
        image = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
    _, data = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
    return f"data:image/jpeg;base64,{base64.b64encode(data.tobytes()).decode('ascii')}"


def settings_of(task: str, options: ParseOptions) -> dict[str, Any]:
    """``model_settings`` of a prunedResult, with PaddleX's names; ``prompt_label`` is how the page was read."""
    return {
        "use_doc_preprocessor": False,
        "use_layout_detection": False,
        "use_chart_recognition": False,
        "use_seal_recognition": False,
        "use_ocr_for_image_block": False,
        "format_block_content": bool(options.formatBlockContent),
        "merge_layout_blocks": False,
        "markdown_ignore_labels": options.markdownIgnoreLabels or [],
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
