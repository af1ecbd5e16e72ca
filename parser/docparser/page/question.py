# SPDX-License-Identifier: Apache-2.0
"""What the VLM is asked about a picture, the request that asks it, and the calls for the blocks of pages, which run on
an event loop in a thread of their own. Which crop and which prompt a block has, PaddleX says (``page.blocks``). Loads
no PaddleX."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import io
import math
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from typing import Any

import cv2
import numpy as np
from PIL import Image

from docparser import traces
from docparser.contract.schemas import PIXEL_KINDS, ParseOptions
from docparser.vlm.client import Reply, VlmClient
from docparser.vlm.repetition import TABLE, TEXT, Guard
from print_size import fitted

TEXT_PROMPT, TABLE_PROMPT = "OCR:", "Table Recognition:"
QUALITY = 75  # of the JPEG, Pillow's own: PaddleX sends crops so
QUALITY_OF_SMALL = 95  # where each pixel of the print counts
LONGEST_STRIP = 200  # PaddleOCR-VL refuses a picture that is more times as long as wide
MAX_NEW_TOKENS = 4096  # where the request says nothing
LEAST_PIXELS, MOST_PIXELS = 112_896, 1_003_520  # of a crop, where the request says nothing


@dataclasses.dataclass(frozen=True)
class Sampling:
    """Fields of a chat completion that all blocks of a page have."""

    fields: dict[str, Any]

    @classmethod
    def of(cls, options: ParseOptions, *, spotting: bool) -> Sampling:
        """Where texts are spotted, their places are special tokens."""
        penalty, top_p = options.repetitionPenalty, options.topP
        return cls(
            {
                "skip_special_tokens": not spotting,
                **({} if penalty is None else {"repetition_penalty": penalty}),
                "temperature": 0 if options.temperature is None else options.temperature,
                **({} if top_p is None else {"top_p": top_p}),
                "max_completion_tokens": options.maxNewTokens or MAX_NEW_TOKENS,
            }
        )


@dataclasses.dataclass(frozen=True)
class Question:
    """``picture``: uint8 ``[height, width, 3]``, blue first. The VLM's preprocessing scales it to between
    ``least_pixels`` and ``most_pixels``. ``quality``: of its JPEG."""

    picture: np.ndarray
    prompt: str
    least_pixels: int
    most_pixels: int
    quality: int = QUALITY

    def with_lines_of(self, pixels: int) -> Question:
        """The question with lines of print that are ``pixels`` high, where the picture is of print and needs fewer
        pixels so (``print_size``). A request that names bounds of pixels keeps them."""
        bounds = self.least_pixels, self.most_pixels
        if self.prompt not in (TEXT_PROMPT, TABLE_PROMPT) or bounds != (LEAST_PIXELS, MOST_PIXELS):
            return self
        picture = fitted(self.picture, pixels, *bounds)
        if picture is None:
            return self
        least = min(self.least_pixels, picture.shape[0] * picture.shape[1])
        return dataclasses.replace(self, picture=picture, least_pixels=least, quality=QUALITY_OF_SMALL)

    def request(self, sampling: Sampling) -> dict[str, Any]:
        """The fields of a chat completion but for the model. The picture is coded here, and nowhere else."""
        coded = io.BytesIO()
        Image.fromarray(cv2.cvtColor(widened(self.picture), cv2.COLOR_BGR2RGB)).save(
            coded, "JPEG", quality=self.quality
        )
        url = "data:image/jpeg;base64," + base64.b64encode(coded.getvalue()).decode("ascii")
        content = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": self.prompt}]
        return {
            "messages": [{"role": "user", "content": content}],
            **sampling.fields,
            "mm_processor_kwargs": {"min_pixels": self.least_pixels, "max_pixels": self.most_pixels},
        }


def pixel_bounds(options: ParseOptions) -> dict[str, int]:
    """Bounds of the pixels of a crop by what is on it."""
    bounds: dict[str, int] = {}
    for kind in PIXEL_KINDS:
        least, most = options.named_pixels(kind, "min"), options.named_pixels(kind, "max")
        # Where the request names one of the two, the other's default gives way, as it does in the VLM.
        highest = most[1] if most else max(MOST_PIXELS, least[1] if least else 0)
        lowest = least[1] if least else min(LEAST_PIXELS, highest)
        bounds |= {f"{kind}_min_pixels": lowest, f"{kind}_max_pixels": highest}
    return bounds


def widened(picture: np.ndarray) -> np.ndarray:
    """A strip that the VLM would refuse, with its own paper added at both of its long sides; any other as it is."""
    height, width = picture.shape[:2]
    lacking = math.ceil(max(height, width) / LONGEST_STRIP) - min(height, width)
    if lacking <= 0:
        return picture
    before, after = lacking // 2, lacking - lacking // 2
    paper = [int(level) for level in np.median(picture.reshape(-1, 3), axis=0)]
    (top, bottom), (left, right) = ((before, after), (0, 0)) if width > height else ((0, 0), (before, after))
    return np.asarray(cv2.copyMakeBorder(picture, top, bottom, left, right, cv2.BORDER_CONSTANT, value=paper))


@dataclasses.dataclass(frozen=True)
class BlockCalls:
    """The calls for one block. A request is the fields of a chat completion but for the model."""

    client: VlmClient
    model: str
    request_id: str

    async def one(self, request: dict[str, Any], guard: Guard) -> Reply:
        """Raises VlmUnavailable."""
        return await self.client.read_block({"model": self.model, **request}, self.request_id, guard)

    async def each(self, requests: Sequence[dict[str, Any]], guard: Guard, part: str = "") -> list[Reply]:
        """All at once; ``part`` of the block names them. Raises VlmUnavailable."""
        names = [f"{self.request_id}{part}-{number}" for number in range(len(requests))]
        calls = [dataclasses.replace(self, request_id=name) for name in names]
        return list(await asyncio.gather(*(call.one(request, guard) for call, request in zip(calls, requests))))


# What computes is done when it is called; what it returns waits for the VLM.
ReadBlock = Callable[[Question, Sampling, BlockCalls], Coroutine[Any, Any, Reply]]


def read_block(
    question: Question, sampling: Sampling, calls: BlockCalls, line_pixels: int = 0
) -> Coroutine[Any, Any, Reply]:
    """A block is one request. ``line_pixels``: PARSER_LINE_PIXELS."""
    if line_pixels:
        question = question.with_lines_of(line_pixels)
    return calls.one(question.request(sampling), TABLE if question.prompt == TABLE_PROMPT else TEXT)


class VlmCalls:
    """The event loop, and the client that belongs to it; both end with the process."""

    def __init__(self, client: VlmClient, model: str) -> None:
        """``model``: its name at the server."""
        self.client = client
        self._model = model
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="vlm-calls", daemon=True).start()
        asyncio.run_coroutine_threadsafe(client.open(), self._loop).result()

    def start(self, request_id: str, call: Callable[[BlockCalls], Coroutine[Any, Any, Reply]]) -> Future[Reply]:
        """The reply to a block, some day. ``call`` is called at once, in this thread."""
        reply = call(BlockCalls(self.client, self._model, request_id))
        return asyncio.run_coroutine_threadsafe(traces.within("block", reply, request_id=request_id), self._loop)
