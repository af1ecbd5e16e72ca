# SPDX-License-Identifier: Apache-2.0
"""Conversations of the other families, asked of transformers, of vLLM inside a process, and of a server."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from reference.cases import Case
from reference.families import FAMILIES, Family
from tests.plugin.chat import encode, image_part, text_part
from tests.plugin.drawings import drawn


class Conversation:
    """One user's turn: images of these (height, width), a video of (frames, height, width), and a text."""

    def __init__(
        self, text: str, *sizes: tuple[int, int], video: tuple[int, int, int] | None = None, **pixels: int
    ) -> None:
        self.text, self.pixels = text, pixels
        self.images = [drawn(index + 1, *size) for index, size in enumerate(sizes)]
        self.videos = [np.stack([drawn(90 + index, *video[1:]) for index in range(video[0])])] if video else []

    def case(self, family: Family) -> Case:
        """With the prompt that the server's chat template would write."""
        media = family.image * len(self.images) + (family.video or "") * len(self.videos)
        limits = {"min_pixels": family.min_pixels, "max_pixels": family.max_pixels, **self.pixels}
        prompt = family.chat.format(media=media, text=self.text)
        return Case(prompt, self.images, limits["min_pixels"], limits["max_pixels"], videos=self.videos)

    def body(self, model: str, **options: Any) -> dict[str, Any]:
        """As a chat request; videos as frames without loss."""
        parts = [image_part(encode_array(image)) for image in self.images]
        parts += [video_part(*map(encode_array, video)) for video in self.videos]
        return {
            "model": model,
            "messages": [{"role": "user", "content": [*parts, text_part(self.text)]}],
            "temperature": 0,
            "repetition_penalty": 1.0,
            **({"mm_processor_kwargs": self.pixels} if self.pixels else {}),
            **options,
        }


def encode_array(image: np.ndarray) -> bytes:
    from PIL import Image

    return encode(Image.fromarray(image))


def video_part(*files: bytes, kind: str = "jpeg") -> dict[str, Any]:
    """Frames one after another, or one file of another kind."""
    data = ",".join(base64.b64encode(file).decode() for file in files)
    return {"type": "video_url", "video_url": {"url": f"data:video/{kind};base64,{data}"}}


QWEN2_VL, HUNYUAN_VL = FAMILIES["qwen2_vl"], FAMILIES["hunyuan_vl"]
CONVERSATIONS = {
    "qwen2_vl": {
        "the seed's image": Conversation("Describe this image.", (868, 899)),
        "the paper's image": Conversation("Describe this image.", (224, 224)),
        "several": Conversation("Which one?", (224, 140), (90, 700), (3, 3), max_pixels=200_000),
        "no image": Conversation("Hello"),
        "video": Conversation("What happens?", video=(6, 200, 300)),
        "an odd number of frames and an image": Conversation("And?", (100, 100), video=(5, 120, 90)),
    },
    "hunyuan_vl": {
        "spotting": Conversation("检测并识别图片中的文字，将文本坐标格式化输出。", (480, 640)),
        "several": Conversation("a", (300, 300), (90, 1200)),
        "no image": Conversation("Hello"),
    },
}
# For layers of the published widths: few tokens, small images.
FEW = {
    "qwen2_vl": {
        "image": Conversation("Read.", (112, 196)),
        "video": Conversation("And?", video=(4, 84, 112)),
        "no image": Conversation("Hello"),
    },
    # Its images have 262144 pixels at least.
    "hunyuan_vl": {"image": Conversation("a", (300, 200)), "no image": Conversation("Hello")},
}
