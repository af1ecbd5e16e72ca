# SPDX-License-Identifier: Apache-2.0
"""vLLM's own Qwen2-VL with our inputs: from a request's prompt, images and videos to vLLM's multimodal inputs, by the
checkpoint's own processors."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import torch
from transformers.models.qwen2_vl.video_processing_qwen2_vl import Qwen2VLVideoProcessor
from vllm.config import VllmConfig
from vllm.model_executor.models.qwen2_vl import (
    Qwen2VLDummyInputsBuilder,
    Qwen2VLMultiModalProcessor,
    Qwen2VLProcessingInfo,
)
from vllm.model_executor.models.qwen2_vl import Qwen2VLForConditionalGeneration as VllmQwen2VL
from vllm.multimodal import MULTIMODAL_REGISTRY

from ..checked_inputs import BoundedInfo, CountedPlaces, features_of
from ..onednn import use_onednn
from ..vllm_names import Qwen2VLImageProcessorFast

FACTOR = 28  # pixels per side of the block that becomes one token
# Of a video, as published: 128 to 768 blocks a frame, and 24576 for all pairs of frames. A pair shares its tokens, so
# this is their number.
LEAST, MOST = 128 * FACTOR**2, 768 * FACTOR**2
TOTAL_PIXELS = 24576 * FACTOR**2
FRAME_FACTOR = 2


def frame_pixels(frames: int, total: int = TOTAL_PIXELS) -> tuple[int, int]:
    """Least and most pixels of each of ``frames`` frames of one video: fewer the more there are, as in Qwen2-VL's
    published vision_process."""
    share = total * FRAME_FACTOR // max(1, frames)
    return LEAST, max(min(MOST, share), int(LEAST * 1.05))


@lru_cache(maxsize=4)
def processors(directory: str) -> tuple[Any, Any]:
    """The checkpoint's image and video processor. The classes are these whatever names its files give."""
    image, _ = Qwen2VLImageProcessorFast.get_image_processor_dict(directory)
    video, _ = Qwen2VLVideoProcessor.get_video_processor_dict(directory)
    # Both change the `size` of their class when they are made, so each gets a copy of it.
    return (
        Qwen2VLImageProcessorFast.from_dict({"size": dict(Qwen2VLImageProcessorFast.size), **image}),
        Qwen2VLVideoProcessor.from_dict({"size": dict(Qwen2VLVideoProcessor.size), **video}),
    )


class BoundedQwen2VLInfo(BoundedInfo, Qwen2VLProcessingInfo):
    """What vLLM asks about inputs before it sees any."""

    factor = FACTOR
    DEFAULT_BOUND = 4096 * FACTOR**2

    # Narrower than vLLM's: what its builder and its processor ask for. A request's options do not make a new processor;
    # limits() applies them.
    def get_hf_processor(self, **_: object) -> Any:
        config, tokenizer = self.get_hf_config(), self.get_tokenizer()
        images, videos = processors(self.ctx.model_config.model)
        return SimpleNamespace(
            image_processor=images,
            video_processor=videos,
            image_token=tokenizer.convert_ids_to_tokens(config.image_token_id),
            video_token=tokenizer.convert_ids_to_tokens(config.video_token_id),
        )

    def default_pixels(self) -> tuple[int, int]:
        size = processors(self.ctx.model_config.model)[0].size
        return size["shortest_edge"], size["longest_edge"]

    def video_size(self, request: Mapping[str, Any], frames: int) -> dict[str, int]:
        """Least and most pixels of each of a video's frames, in the video processor's words."""
        most = self.server_options().get("video_total_pixels", TOTAL_PIXELS)
        least, largest = frame_pixels(frames, most)
        if "max_pixels" in request:
            largest = min(largest, max(FACTOR**2, request["max_pixels"]))
        return {"shortest_edge": min(least, largest), "longest_edge": largest}

    def get_mm_max_tokens_per_item(self, seq_len: int, mm_counts: Mapping[str, int]) -> Mapping[str, int]:
        """Tokens that no item exceeds; vLLM sizes its encoder budget by them."""
        total = self.server_options().get("video_total_pixels", TOTAL_PIXELS)
        # A frame is rounded up to whole blocks; a quarter more covers the smallest and thinnest.
        return {"image": self.most_blocks(), "video": total // FACTOR**2 * 5 // 4}


class BoundedQwen2VLProcessor(CountedPlaces, Qwen2VLMultiModalProcessor):
    """Runs the checkpoint's processors within the bounds."""

    info: BoundedQwen2VLInfo

    def places(self) -> Mapping[str, int]:
        config = self.info.get_hf_config()
        return {"image": config.image_token_id, "video": config.video_token_id}

    def media_features(self, media: Mapping[str, Any], options: Mapping[str, Any]) -> Mapping[str, Any]:
        limits = self.info.limits(options)
        images, videos = processors(self.info.ctx.model_config.model)

        def process_image(image: Any) -> Mapping[str, torch.Tensor]:
            return images(image, min_pixels=limits.min_pixels, max_pixels=limits.max_pixels, return_tensors="pt")

        def process_video(clip: Any) -> Mapping[str, torch.Tensor]:
            size = self.info.video_size(options, len(clip))
            return videos(clip, size=size, do_sample_frames=False, return_tensors="pt")

        return features_of(
            {"image": media.get("images", ()), "video": media.get("videos", ())},
            {"image": process_image, "video": process_video},
        )


@MULTIMODAL_REGISTRY.register_processor(
    BoundedQwen2VLProcessor, info=BoundedQwen2VLInfo, dummy_inputs=Qwen2VLDummyInputsBuilder
)
class Qwen2VLForConditionalGeneration(VllmQwen2VL):
    """The published checkpoints' model."""

    def __init__(self, *, vllm_config: VllmConfig, prefix: str = "") -> None:
        super().__init__(vllm_config=vllm_config, prefix=prefix)
        use_onednn(self)
