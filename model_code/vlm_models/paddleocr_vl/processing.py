# SPDX-License-Identifier: Apache-2.0
"""Image processor and tokenizer of a checkpoint, as vLLM asks for them, whatever classes its files name."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer, ProcessorMixin

from .image_processing import PaddleOCRVLImageProcessor

IMAGE_TOKEN = "<|IMAGE_PLACEHOLDER|>"
IMAGE_START = "<|IMAGE_START|>"
IMAGE_END = "<|IMAGE_END|>"
# One image in a prompt's text.
IMAGE_PROMPT = IMAGE_START + IMAGE_TOKEN + IMAGE_END


class PaddleOCRVLProcessor(ProcessorMixin):
    """Holds both; ``multimodal`` makes the inputs, and calls the image processor itself."""

    attributes = ["image_processor", "tokenizer"]
    image_processor_class = "AutoImageProcessor"
    tokenizer_class: Any = "AutoTokenizer"

    image_processor: PaddleOCRVLImageProcessor
    tokenizer: Any

    def __init__(self, image_processor: Any = None, tokenizer: Any = None, **kwargs: Any) -> None:
        self.image_token = IMAGE_TOKEN
        self.image_token_id = tokenizer.convert_tokens_to_ids(IMAGE_TOKEN)
        super().__init__(image_processor, tokenizer, chat_template=kwargs.get("chat_template"))

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path: str | os.PathLike, *_: Any, tokenizer: Any = None, **__: Any
    ) -> Any:
        """Processor of the checkpoint in a directory.

        The classes are ours whatever names the checkpoint's files give (published ones have named a
        SigLIP processor, or code of their own); only the values in the files are used.
        """
        directory = Path(pretrained_model_name_or_path)
        image_processor = PaddleOCRVLImageProcessor.from_dict(image_processor_values(directory))
        return cls(image_processor, tokenizer or AutoTokenizer.from_pretrained(directory))


def image_processor_values(directory: Path) -> dict[str, Any]:
    """Values of preprocessor_config.json, or of its section in processor_config.json (transformers >= 5)."""
    single, joint = directory / "preprocessor_config.json", directory / "processor_config.json"
    if single.is_file():
        values = json.loads(single.read_text())
    elif joint.is_file():
        values = json.loads(joint.read_text()).get("image_processor", {})
    else:
        raise OSError(f"{directory}: neither preprocessor_config.json nor processor_config.json is there")
    return {key: value for key, value in values.items() if key not in ("auto_map", "processor_class")}
