# SPDX-License-Identifier: Apache-2.0
"""From a request's prompt and images to vLLM's multimodal inputs.

Everything a request may do wrong is found here, in the API server, and raised as ValueError, which the
server answers with status 400; the engine core only sees inputs that agree with each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image
from transformers import BatchFeature
from vllm.multimodal.inputs import MultiModalFieldConfig
from vllm.multimodal.processing import BaseMultiModalProcessor, BaseProcessingInfo, PromptReplacement

from ..checked_inputs import BoundedInfo, CountedPlaces, features_of
from ..images import to_rgb
from ..vllm_names import BaseDummyInputsBuilder, batched_on_host
from .processing import IMAGE_TOKEN, PaddleOCRVLProcessor


class PaddleOCRVLProcessingInfo(BoundedInfo, BaseProcessingInfo):
    """What vLLM asks about inputs before it sees any."""

    DEFAULT_BOUND = 2822400  # 3600 tokens

    def get_hf_processor(self, **_: object) -> PaddleOCRVLProcessor:
        # A request's options do not make a new processor; limits() applies them.
        return self.ctx.get_hf_processor(PaddleOCRVLProcessor)

    def get_supported_mm_limits(self) -> Mapping[str, int | None]:
        return {"image": None}

    @property
    def factor(self) -> int:
        return self.get_hf_processor().image_processor.factor

    def default_pixels(self) -> tuple[int, int]:
        images = self.get_hf_processor().image_processor
        return images.min_pixels, images.max_pixels

    def get_mm_max_tokens_per_item(self, seq_len: int, mm_counts: Mapping[str, int]) -> Mapping[str, int]:
        """Tokens that no image exceeds; vLLM sizes its encoder budget by them."""
        return {"image": self.most_blocks()}


class PaddleOCRVLDummyInputsBuilder(BaseDummyInputsBuilder[PaddleOCRVLProcessingInfo]):
    """Inputs for vLLM's memory profiling."""

    def get_dummy_text(self, mm_counts: Mapping[str, int]) -> str:
        return IMAGE_TOKEN * mm_counts.get("image", 0)

    def get_dummy_mm_data(self, seq_len: int, mm_counts: Mapping[str, int], mm_options: Any = None) -> dict[str, Any]:
        size = self.info.get_image_size_with_most_features()
        overrides = mm_options.get("image") if mm_options else None
        images = self._get_dummy_images(
            width=size.width, height=size.height, num_images=mm_counts.get("image", 0), overrides=overrides
        )
        return {"image": images}


class PaddleOCRVLMultiModalProcessor(CountedPlaces, BaseMultiModalProcessor[PaddleOCRVLProcessingInfo]):
    """Runs the image processor and puts each image's tokens into the prompt."""

    def media_features(self, media: Mapping[str, Any], options: Mapping[str, Any]) -> Mapping[str, Any]:
        limits = self.info.limits(options)
        processor = self.info.get_hf_processor().image_processor
        dtype = self.info.ctx.model_config.dtype
        assert isinstance(dtype, torch.dtype), "vLLM resolves names of types when it reads the configuration"

        def process(image: Any) -> Mapping[str, torch.Tensor]:
            values, grid = processor.patches(to_rgb(as_pil(image)), limits, dtype)
            return {"pixel_values": values, "image_grid_thw": torch.tensor([grid], dtype=torch.int64)}

        return features_of({"image": media.get("images", ())}, {"image": process})

    def _get_mm_fields_config(
        self, hf_inputs: BatchFeature, hf_processor_mm_kwargs: Mapping[str, Any]
    ) -> Mapping[str, MultiModalFieldConfig]:
        grids = hf_inputs.get("image_grid_thw", torch.empty((0, 3), dtype=torch.int64))
        # Flat, so that the images of a batch arrive in the model as one tensor.
        return {
            "pixel_values": MultiModalFieldConfig.flat_from_sizes("image", grids.prod(-1)),
            "image_grid_thw": batched_on_host("image"),
        }

    def _get_prompt_updates(self, mm_items: Any, hf_processor_mm_kwargs: Any, out_mm_kwargs: Any) -> Sequence[Any]:
        token = self.info.get_hf_config().image_token_id
        merge = self.info.get_hf_processor().image_processor.merge_size

        def tokens_of(index: int) -> list[int]:
            # Counted from what the processor returned, never from the image's size again.
            grid = out_mm_kwargs["image"][index]["image_grid_thw"].data
            return [token] * (int(grid.prod()) // merge**2)

        return [PromptReplacement(modality="image", target=[token], replacement=tokens_of)]

    def places(self) -> Mapping[str, int]:
        return {"image": self.info.get_hf_config().image_token_id}


def as_pil(image: Any) -> Image.Image:
    """PIL image of a PIL image or of an array [height, width, 3] uint8. Raises ValueError for others."""
    if isinstance(image, Image.Image):
        return image
    array = np.asarray(image)
    if array.dtype != np.uint8 or array.ndim != 3 or array.shape[-1] != 3 or 0 in array.shape:
        raise ValueError(
            f"an array of shape {array.shape} and type {array.dtype} is no image; expected [height, width, 3], uint8"
        )
    return Image.fromarray(array)
