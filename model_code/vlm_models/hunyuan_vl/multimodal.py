# SPDX-License-Identifier: Apache-2.0
"""From a request's prompt and images to vLLM's multimodal inputs, by the image processor that vLLM brings."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from vllm.model_executor.models.hunyuan_vision import (
    HunYuanVLMultiModalProcessor,
    HunYuanVLProcessingInfo,
)
from vllm.transformers_utils.processors.hunyuan_vl_image import HunYuanVLImageProcessor

from ..checked_inputs import BoundedInfo, CountedPlaces, features_of
from ..pixel_limits import PixelLimits

FACTOR = 32  # pixels per side of the block that becomes one token
EDGES = 2  # tokens around an image's rows: begin and end


@lru_cache(maxsize=64)
def image_processor(directory: str, limits: PixelLimits | None = None) -> HunYuanVLImageProcessor:
    """The checkpoint's image processor, of vLLM's class whatever name its files give, with other limits if wanted: it
    looks at none but its own."""
    values, _ = HunYuanVLImageProcessor.get_image_processor_dict(directory)
    # It forgets `size`, which transformers 5 writes, and makes nothing of an image where two frames share a token.
    size = values.pop("size", None) or {}
    names = {"min_pixels": "shortest_edge", "max_pixels": "longest_edge"}
    sized = {name: size[key] for name, key in names.items() if key in size}
    values = {"temporal_patch_size": 1, **sized, **values}
    if limits:
        values |= {"min_pixels": limits.min_pixels, "max_pixels": limits.max_pixels}
    return HunYuanVLImageProcessor(**values)


def start_token(config: Any) -> int:
    """The token before an image. Published configurations have two names for it, those of transformers 5 one."""
    return getattr(config, "image_start_token_id", None) or config.im_start_id


class BoundedHunYuanVLInfo(BoundedInfo, HunYuanVLProcessingInfo):
    """What vLLM asks about inputs before it sees any."""

    factor = FACTOR
    DEFAULT_BOUND = 4096 * FACTOR**2

    # Narrower than vLLM's: what its builder and its processor ask for. A request's options do not make a new processor;
    # limits() applies them.
    def get_hf_processor(self, **_: object) -> Any:
        token = self.get_hf_config().image_token_id
        return SimpleNamespace(
            image_processor=image_processor(self.ctx.model_config.model),
            image_token_id=token,
            image_token=self.get_tokenizer().convert_ids_to_tokens(token),
        )

    def default_pixels(self) -> tuple[int, int]:
        processor = image_processor(self.ctx.model_config.model)
        return processor.min_pixels, processor.max_pixels

    def get_mm_max_tokens_per_item(self, seq_len: int, mm_counts: Mapping[str, int]) -> Mapping[str, int]:
        """Tokens that no image exceeds. Each row has one more than blocks, and there are at most as many rows as in an
        image of the largest aspect ratio."""
        blocks = self.most_blocks()
        return {"image": blocks + self.most_rows(blocks) + EDGES}


class BoundedHunYuanVLProcessor(CountedPlaces, HunYuanVLMultiModalProcessor):
    """Runs the image processor within the bounds. vLLM's own goes by fixed numbers of tokens and replaces texts."""

    info: BoundedHunYuanVLInfo

    def places(self) -> Mapping[str, int]:
        return {"image": self.info.get_hf_config().image_token_id}

    def _apply_prompt_updates(self, token_ids: list[int], mm_prompt_updates: Mapping[str, Any]) -> Any:
        # Features go to the places, but positions are counted from the start tokens.
        starts, images = token_ids.count(start_token(self.info.get_hf_config())), len(mm_prompt_updates["image"])
        if starts != images:
            raise ValueError(f"the prompt begins {starts} images, and the request has {images}")
        return super()._apply_prompt_updates(token_ids, mm_prompt_updates)

    def media_features(self, media: Mapping[str, Any], options: Mapping[str, Any]) -> Mapping[str, Any]:
        processor = image_processor(self.info.ctx.model_config.model, self.info.limits(options))
        return features_of(
            {"image": media.get("images", ())},
            {"image": lambda image: processor(images=image, return_tensors="pt")},
        )
