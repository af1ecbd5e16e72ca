# SPDX-License-Identifier: Apache-2.0
"""What transformers' classes are for each family, the form of its prompts, and whether a folder holds its model."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tool_errors import UsageError

# Of Qwen2-VL's published vision_process: pixels of a video's frame, and of all its pairs of frames together.
BLOCK = 28 * 28
FRAME_LEAST, FRAME_MOST, VIDEO_TOTAL = 128 * BLOCK, 768 * BLOCK, 24576 * BLOCK


@dataclass(frozen=True)
class Family:
    """``image`` and ``video`` are the places of one in a prompt; ``chat`` is filled with ``{media}`` and ``{text}``.
    ``of_blocks``: the model reads a block of a page, not a page; but for the tasks in ``pages``, each with the most
    pixels that a page gets."""

    name: str
    model: Callable[[], Any]
    processor: Callable[[Path, Any], Any]
    image: str
    chat: str
    video: str | None = None
    min_pixels: int = 112896
    max_pixels: int = 1003520
    of_blocks: bool = False
    pages: Mapping[str, int] = field(default_factory=dict)


def _named(name: str) -> Callable[[], Any]:
    def load() -> Any:
        import transformers

        return getattr(transformers, name)

    return load


def _paddleocr_vl(directory: Path, tokenizer: Any) -> Any:
    from transformers import PaddleOCRVLProcessor
    from transformers.models.paddleocr_vl.image_processing_pil_paddleocr_vl import PaddleOCRVLImageProcessorPil

    # The processor that resizes with PIL, as the published one does.
    return PaddleOCRVLProcessor(PaddleOCRVLImageProcessorPil.from_pretrained(directory), tokenizer)


def _qwen2_vl(directory: Path, tokenizer: Any) -> Any:
    from transformers import Qwen2VLImageProcessor, Qwen2VLProcessor, Qwen2VLVideoProcessor

    images, videos = (kind.from_pretrained(directory) for kind in (Qwen2VLImageProcessor, Qwen2VLVideoProcessor))
    return Qwen2VLProcessor(images, tokenizer, videos)


def _hunyuan_vl(directory: Path, tokenizer: Any) -> Any:
    from transformers import HunYuanVLProcessor
    from transformers.models.hunyuan_vl.image_processing_pil_hunyuan_vl import HunYuanVLImageProcessorPil

    return HunYuanVLProcessor(HunYuanVLImageProcessorPil.from_pretrained(directory), tokenizer)


# By model_type in config.json.
FAMILIES = {
    "paddleocr_vl": Family(
        "PaddleOCR-VL",
        _named("PaddleOCRVLForConditionalGeneration"),
        _paddleocr_vl,
        "<|IMAGE_START|><|IMAGE_PLACEHOLDER|><|IMAGE_END|>",
        "<|begin_of_sentence|>User: {media}{text}\nAssistant: ",
        of_blocks=True,
        pages={"spotting": 2048 * BLOCK},  # PaddleX 3.7.2
    ),
    "qwen2_vl": Family(
        "Qwen2-VL",
        _named("Qwen2VLForConditionalGeneration"),
        _qwen2_vl,
        "<|vision_start|><|image_pad|><|vision_end|>",
        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n{media}{text}<|im_end|>\n"
        "<|im_start|>assistant\n",
        video="<|vision_start|><|video_pad|><|vision_end|>",
        min_pixels=4 * BLOCK,
        max_pixels=4096 * BLOCK,
    ),
    "hunyuan_vl": Family(
        "HunyuanOCR",
        _named("HunYuanVLForConditionalGeneration"),
        _hunyuan_vl,
        "<｜hy_place▁holder▁no▁100｜><｜hy_place▁holder▁no▁102｜><｜hy_place▁holder▁no▁101｜>",
        "<｜hy_begin▁of▁sentence｜><｜hy_place▁holder▁no▁3｜>{media}{text}<｜hy_User｜>",
        min_pixels=512 * 512,
        max_pixels=2048 * 2048,
    ),
}


def video_size(frames: int, max_pixels: int) -> dict[str, int]:
    """Pixels of each of a video's frames, in the video processor's words; ``max_pixels`` is what a request allows."""
    most = min(max(min(FRAME_MOST, VIDEO_TOTAL * 2 // frames), int(FRAME_LEAST * 1.05)), max_pixels)
    return {"shortest_edge": min(FRAME_LEAST, most), "longest_edge": most}


def check_checkpoint(directory: Path) -> dict[str, Any]:
    """The checkpoint's config.json. Raises UsageError unless the folder holds a family's model in safetensors."""
    values = config_of(directory)
    if not any(directory.glob("*.safetensors")):
        raise UsageError(f"--model_path {directory}: has no *.safetensors, the only format that is loaded")
    return values


def model_type(directory: Path) -> str:
    """The family's name in config.json. Raises UsageError."""
    return str(config_of(directory)["model_type"])


def config_of(directory: Path) -> dict[str, Any]:
    """config.json of a known family. Raises UsageError."""
    config = directory / "config.json"
    if not config.is_file():
        raise UsageError(f"--model_path {directory}: has no config.json; expected a folder with a model's weights")
    try:
        values = json.loads(config.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UsageError(f"{config}: is not JSON ({error}); copy it again") from None
    if values.get("model_type") not in FAMILIES:
        known = ", ".join(map(repr, FAMILIES))
        raise UsageError(f"{config}: model_type is {values.get('model_type')!r}; expected one of {known}")
    return dict(values)
