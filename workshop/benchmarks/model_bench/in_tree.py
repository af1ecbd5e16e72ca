# SPDX-License-Identifier: Apache-2.0
"""The PaddleOCR-VL inside vLLM without the checkpoint's own Python code; for benchmarks only.

transformers 5 has configuration and processor (stack 0.23.0). Up to 0.13.0 that model takes them from code in the
published checkpoint (``--trust-remote-code``), which is not part of this repository. Our configuration and image
processor take its place and give patches in the order and shape that the in-tree model expects. A comparison then times
our processor on both sides; model, batching and everything after the processor are vLLM's own.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from transformers import CONFIG_MAPPING, AutoConfig, AutoImageProcessor, AutoProcessor, BatchFeature

from vlm_models.paddleocr_vl import config as plugin_config
from vlm_models.paddleocr_vl.image_processing import PaddleOCRVLImageProcessor, merge_block_order
from vlm_models.paddleocr_vl.processing import IMAGE_TOKEN
from vlm_models.paddleocr_vl.processing import PaddleOCRVLProcessor as OurProcessor
from vlm_models.pixel_limits import PixelLimits


class FlatConfig(plugin_config.PaddleOCRVLConfig):
    """Our configuration with the language model's keys at the top level, where the in-tree model looks for them."""

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)
        for name, value in vars(self.text_config).items():
            if name in plugin_config.TEXT_KEYS:
                setattr(self, name, value)


class PaddleOCRVLProcessor(OurProcessor):
    """Our processor in the in-tree model's format: row-major patches [patches, 3, 14, 14], size limits as arguments."""

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: str | os.PathLike, *words: Any, **options: Any) -> Any:
        processor = super().from_pretrained(pretrained_model_name_or_path, *words, **options)
        for name in ("min_pixels", "max_pixels"):
            if name in options:
                setattr(processor.image_processor, name, options[name])
        return processor

    # Narrower than transformers' interface: neither videos nor audio.
    def __call__(  # type: ignore[override]
        self, images: Any = None, text: str | list[str] = "", return_tensors: Any = None, **kwargs: Any
    ) -> BatchFeature:
        """Tokenised text with each placeholder repeated once per token of its image, and the images' arrays."""
        options = {name: value for name, value in kwargs.items() if "pixels" not in name}
        processor = self.image_processor
        limits = PixelLimits(processor.min_pixels, processor.max_pixels, 2**62)
        made = [processor.patches(image.convert("RGB"), limits) for image in images or ()]
        counts = iter([rows * columns // processor.merge_size**2 for _, (_, rows, columns) in made])
        expanded = []
        for one in [text] if isinstance(text, str) else text:
            first, *rest = one.split(IMAGE_TOKEN)
            expanded.append(first + "".join(IMAGE_TOKEN * next(counts) + part for part in rest))
        features = {}
        if made:
            grids = np.array([grid for _, grid in made])
            features["image_grid_thw"] = grids
            features["pixel_values"] = self.row_major(np.concatenate([values.numpy() for values, _ in made]), grids)
        return BatchFeature({**self.tokenizer(expanded, **options), **features}, tensor_type=return_tensors)

    def row_major(self, patches: np.ndarray, grids: np.ndarray) -> np.ndarray:
        """[patches, 588] in merge-block order -> [patches, 3, side, side] row by row."""
        ordered, start, side = np.empty_like(patches), 0, self.image_processor.patch_size
        for _, rows, columns in grids:
            end = start + rows * columns
            ordered[start:end][merge_block_order(rows, columns, self.image_processor.merge_size)] = patches[start:end]
            start = end
        return ordered.reshape(-1, 3, side, side)


def register() -> None:
    """Make transformers know configuration and processors, where it has none of its own; vLLM's model registry stays as
    it is.

    Raises:
        RuntimeError: when the plugin is active, which replaces the in-tree model.
    """
    if os.environ.get("VLLM_PLUGINS") != "":
        raise RuntimeError("VLLM_PLUGINS must be set and empty: the plugin would take the in-tree model's place")
    if "paddleocr_vl" in CONFIG_MAPPING:  # transformers 5
        return
    AutoConfig.register(FlatConfig.model_type, FlatConfig)
    AutoImageProcessor.register(FlatConfig, slow_image_processor_class=PaddleOCRVLImageProcessor)
    AutoProcessor.register(FlatConfig, PaddleOCRVLProcessor)
