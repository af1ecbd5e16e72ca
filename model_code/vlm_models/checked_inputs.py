# SPDX-License-Identifier: Apache-2.0
"""What families whose model code is vLLM's own have in common: inputs that agree before the engine sees them.

vLLM's processors for them let a request change what a processor is made of, and trust that a prompt holds as many
places as the request has images: one more, written in the text of a message, stops the engine. So images and videos go
to the checkpoint's own processors within the operator's bounds, and the places are counted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from .pixel_limits import PixelLimits

MAX_ASPECT_RATIO = 200


class BoundedInfo:
    """Mixin for vLLM's processing info: a request's and the operator's limits. ``DEFAULT_BOUND`` in pixels is the
    operator's where ``--mm-processor-kwargs`` has no ``max_pixels_bound``."""

    ctx: Any
    DEFAULT_BOUND: int

    def server_options(self) -> dict[str, Any]:
        return dict(self.ctx.get_mm_config().mm_processor_kwargs or {})

    def limits(self, request: Mapping[str, Any]) -> PixelLimits:
        """Size limits of a request's images. Raises ValueError for options that make no sense."""
        server = self.server_options()
        bound = server.get("max_pixels_bound", self.DEFAULT_BOUND)
        pixels: dict[str, Any] = {key: server[key] for key in ("min_pixels", "max_pixels") if key in server}
        # vLLM hands a request's options over with the server's among them.
        asked = {key: value for key, value in request.items() if key not in server or key in pixels}
        defaults = PixelLimits(*self.default_pixels(), bound).for_request({})
        return defaults.for_request(pixels).for_request(asked)

    def default_pixels(self) -> tuple[int, int]:
        """The checkpoint's least and most pixels of an image."""
        raise NotImplementedError

    def most_blocks(self, factor: int) -> int:
        """Blocks of ``factor`` x ``factor`` pixels that no image exceeds. A small, thin image that is enlarged is
        rounded up on both sides, so it can pass the bound by a row and a column."""
        blocks = self.limits({}).bound // factor**2
        return blocks + math.ceil((MAX_ASPECT_RATIO + 1) * math.sqrt(blocks / MAX_ASPECT_RATIO)) + 1

    def most_rows(self, blocks: int) -> int:
        """Rows of so many blocks in an image of the largest aspect ratio."""
        return math.ceil(math.sqrt(blocks * MAX_ASPECT_RATIO))


class CountedPlaces:
    """Mixin for vLLM's multimodal processor: it expands placeholders itself, and counts them before."""

    info: Any

    def places(self) -> Mapping[str, int]:
        """Modality -> token id that stands for one item in a prompt."""
        raise NotImplementedError

    def _hf_processor_applies_updates(self, *_: Any, **__: Any) -> bool:
        return False

    def _apply_prompt_updates(self, token_ids: list[int], mm_prompt_updates: Mapping[str, Any]) -> Any:
        for modality, token in self.places().items():
            items, places = len(mm_prompt_updates.get(modality, ())), token_ids.count(token)
            if places != items:
                raise ValueError(
                    f"the prompt has {places} places for {modality}s and the request {items} {modality}s; their tokens "
                    "may not be written in the text of a message"
                )
        vllms: Any = super()  # the class that this one is mixed into
        return vllms._apply_prompt_updates(token_ids, mm_prompt_updates)


class named:
    """Context in which a ValueError says which item it is about."""

    def __init__(self, modality: str, index: int, count: int) -> None:
        self.words = f"{modality} {index + 1} of {count}"

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, ValueError):
            raise ValueError(f"{self.words}: {error}") from error
