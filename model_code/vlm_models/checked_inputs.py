# SPDX-License-Identifier: Apache-2.0
"""What the families have in common: inputs that agree before the engine sees them.

vLLM's own processors let a request change what a processor is made of, and trust that a prompt holds as many places as
the request has images: one more, written in the text of a message, stops the engine. So images and videos are processed
within the operator's bounds, and the places are counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from vllm.multimodal.parse import ImageSize

from .pixel_limits import MAX_ASPECT_RATIO, PixelLimits, most_blocks
from .vllm_names import MediaProcessor


class BoundedInfo:
    """Mixin for vLLM's processing info: a request's and the operator's limits. ``factor`` is how many pixels wide and
    high the block is that becomes one token; ``DEFAULT_BOUND`` in pixels is the operator's where
    ``--mm-processor-kwargs`` has no ``max_pixels_bound``."""

    ctx: Any
    DEFAULT_BOUND: int

    @property
    def factor(self) -> int:
        raise NotImplementedError

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

    def most_blocks(self) -> int:
        """Blocks that no image exceeds."""
        return most_blocks(self.limits({}).bound, self.factor)

    def most_rows(self, blocks: int) -> int:
        """Rows of so many blocks in an image of the largest aspect ratio."""
        return math.ceil(math.sqrt(blocks * MAX_ASPECT_RATIO))

    def get_image_size_with_most_features(self, max_pixels: int | None = None) -> ImageSize:
        """A square image of as many tokens as one of a request without options gets, within ``max_pixels`` where vLLM
        names them. vLLM tries it without options, so a larger one would be reduced to it."""
        bound = self.limits({}).max_pixels
        side = math.isqrt(min(bound, max_pixels or bound)) // self.factor * self.factor
        return ImageSize(width=side, height=side)


class CountedPlaces(MediaProcessor):
    """Mixin for vLLM's multimodal processor: vLLM expands placeholders, which are counted before."""

    def places(self) -> Mapping[str, int]:
        """Modality -> token id that stands for one item in a prompt."""
        raise NotImplementedError

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


def features_of(
    items: Mapping[str, Sequence[Any]], process: Mapping[str, Callable[[Any], Mapping]]
) -> dict[str, torch.Tensor]:
    """What a prompt's items make: of each modality the items, and what processes one of them into tensors by name;
    tensors of one name stand one after the other. A ValueError says which item it is about."""
    made = []
    for modality, those in items.items():
        for index, item in enumerate(those):
            with named(modality, index, len(those)):
                made.append(process[modality](item))
    names = dict.fromkeys(name for one in made for name in one)
    parts = {name: [one[name] for one in made if name in one] for name in names}
    return {name: those[0] if len(those) == 1 else torch.cat(those) for name, those in parts.items()}


@contextmanager
def named(modality: str, index: int, count: int) -> Iterator[None]:
    """Context in which a ValueError says which item it is about."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{modality} {index + 1} of {count}: {error}") from error
