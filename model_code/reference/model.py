# SPDX-License-Identifier: Apache-2.0
"""A model by transformers >= 5 on one device: inputs, logits of every position, generated tokens.

No remote code runs.
"""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .device import Device  # before torch: sets how torch loads its back ends

import torch  # isort: skip
from PIL import Image
from transformers import AutoTokenizer
from transformers.utils import logging as transformers_logging

from tool_errors import DeviceError, ToolError, UsageError

from .cases import Case
from .families import FAMILIES, check_checkpoint, video_size

SMALL_HIDDEN_SIZE = 512
# What image and video processors make.
MADE = ("pixel_values", "image_grid_thw", "pixel_values_videos", "video_grid_thw")
OUT_OF_MEMORY = (
    "out of memory on {device}: use --dtype bfloat16 or float16 instead of float32, lower --max_pixels, "
    "and look for other users of the device with {monitor}"
)
MISMATCH = (
    "{error}: the prompt must hold one <|IMAGE_START|><|IMAGE_PLACEHOLDER|><|IMAGE_END|> for each image; "
    'leave them out, and they are added: --prompt "OCR:"'
)
MONITOR = {"npu": "npu-smi info", "cuda": "nvidia-smi", "cpu": "free -g"}

# Message of a library's exception -> what to say instead. The first that matches counts.
TRANSLATIONS: tuple[tuple[re.Pattern[str], Callable[[str, str], ToolError]], ...] = (
    (
        re.compile("out of memory|can't allocate memory|DefaultCPUAllocator", re.IGNORECASE),
        lambda error, device: DeviceError(
            OUT_OF_MEMORY.format(device=device, monitor=MONITOR[device.partition(":")[0]])
        ),
    ),
    (
        re.compile("features and image tokens do not match"),
        lambda error, device: UsageError(MISMATCH.format(error=error)),
    ),
    (
        re.compile("aspect ratio must be smaller", re.IGNORECASE),
        lambda error, device: UsageError(f"an image is too long and thin ({error}); cut it into parts"),
    ),
)


class ReferenceModel:
    """A checkpoint on a device. Raises UsageError for a folder that does not hold a whole model of a family."""

    def __init__(self, directory: Path, device: Device, dtype: str = "float32") -> None:
        config = check_checkpoint(directory)
        self.family = FAMILIES[config["model_type"]]
        # A small model's matrices are not worth sharing: on busy cores each thread waits for the other at every one.
        if config.get("hidden_size", 1024) < SMALL_HIDDEN_SIZE and "OMP_NUM_THREADS" not in os.environ:
            torch.set_num_threads(1)
        self.device, self.dtype = device, getattr(torch, dtype)
        transformers_logging.disable_progress_bar()
        transformers_logging.set_verbosity_error()
        with explained(device):
            # With output_loading_info a pair, which transformers' annotations do not say.
            loaded: Any = self.family.model().from_pretrained(directory, dtype=self.dtype, output_loading_info=True)
            model, info = loaded
            if wrong := sorted(map(str, [*info["missing_keys"], *info["mismatched_keys"]])):
                raise UsageError(
                    f"--model_path {directory}: the weights lack {len(wrong)} tensors of the model, {wrong[0]} "
                    "among them; copy the published files again"
                )
            self.model: Any = model.to(device.name).eval()
        self.image_token_id: int = model.config.image_token_id
        self.end_token_id: int = model.config.text_config.eos_token_id
        self.tokenizer = AutoTokenizer.from_pretrained(directory)
        self.processor = self.family.processor(directory, self.tokenizer)

    def inputs(self, case: Case) -> dict[str, torch.Tensor]:
        """A case as the model takes it, on the CPU: the prompt's tokens, then those of ``case.answer``."""
        with explained(self.device):
            inputs = processed(self.processor, case)
        if case.answer:
            answer = torch.tensor([case.answer])
            inputs["input_ids"] = torch.cat([inputs["input_ids"], answer], 1)
            inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
            if "mm_token_type_ids" in inputs:
                kinds = inputs["mm_token_type_ids"]
                inputs["mm_token_type_ids"] = torch.cat([kinds, torch.zeros_like(answer, dtype=kinds.dtype)], 1)
        return inputs

    def to_device(self, inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        moved = {name: value.to(self.device.name) for name, value in inputs.items()}
        for name in {"pixel_values", "pixel_values_videos"} & moved.keys():
            moved[name] = moved[name].to(self.dtype)
        return moved

    @torch.inference_mode()
    def logits(self, case: Case) -> dict[str, torch.Tensor]:
        """``input_ids`` [n], ``logits`` [n, vocabulary] float32 and, with images, what the image processor made."""
        inputs = self.inputs(case)
        with explained(self.device):
            logits = self.model(**self.to_device(inputs)).logits[0].float().cpu()
        kept: dict[str, torch.Tensor] = {name: inputs[name] for name in MADE if name in inputs}
        return {"input_ids": inputs["input_ids"][0], "logits": logits, **kept}

    def text(self, tokens: list[int], skip_special_tokens: bool = False) -> str:
        """The text of the tokens of one sequence."""
        text = self.tokenizer.decode(tokens, skip_special_tokens=skip_special_tokens)
        assert isinstance(text, str), "a list of texts is for a list of sequences"
        return text

    def generate(self, case: Case, max_new_tokens: int) -> list[int]:
        """Greedy continuation as token ids, the end token included where the model gave it."""
        return self.continue_from(self.inputs(case), max_new_tokens)

    def read(self, case: Case, max_new_tokens: int, streamer: Any) -> list[int]:
        """As :meth:`generate`, with what the checkpoint's generation_config.json says of repetitions."""
        return self._continued(self.inputs(case), max_new_tokens, streamer=streamer)

    def continue_from(
        self, inputs: dict[str, torch.Tensor], max_new_tokens: int, min_new_tokens: int = 0, streamer: Any = None
    ) -> list[int]:
        """As :meth:`generate`, from what :meth:`inputs` made; at least ``min_new_tokens``, whatever the model says."""
        # HunyuanOCR's authors publish a penalty, with which the tokens are no longer the most probable ones.
        plain = {"min_new_tokens": min_new_tokens, "repetition_penalty": 1.0, "no_repeat_ngram_size": 0}
        return self._continued(inputs, max_new_tokens, streamer=streamer, **plain)

    @torch.inference_mode()
    def _continued(self, inputs: dict[str, torch.Tensor], max_new_tokens: int, **options: Any) -> list[int]:
        with explained(self.device):
            output = self.model.generate(
                **self.to_device(inputs), max_new_tokens=max_new_tokens, do_sample=False, **options
            )
        return output[0, inputs["input_ids"].shape[1] :].tolist()

    def release(self) -> None:
        """Give the weights' memory back; tokenizer and configuration stay usable."""
        self.model = None
        gc.collect()
        self.device.empty_cache()


def processed(processor: Any, case: Case) -> dict[str, torch.Tensor]:
    """What a family's processor makes of a case, but for its answer. Raises ValueError for shapes that it refuses."""
    options: dict[str, Any] = {}
    if case.images:
        size = {"shortest_edge": case.min_pixels, "longest_edge": case.max_pixels}
        options = {"images": [Image.fromarray(image) for image in case.images], "images_kwargs": {"size": size}}
    if case.videos:
        # The frames are those that the model sees already.
        frames = {"size": video_size(len(case.videos[0]), case.max_pixels), "do_sample_frames": False}
        options |= {"videos": [torch.from_numpy(one).permute(0, 3, 1, 2) for one in case.videos]}
        options |= {"videos_kwargs": frames}
    return dict(
        processor(text=[case.prompt], return_tensors="pt", text_kwargs={"add_special_tokens": False}, **options)
    )


@contextmanager
def explained(device: Device) -> Iterator[None]:
    """Turn a library's exception into a ToolError where we know what it means."""
    try:
        yield
    except (RuntimeError, ValueError, MemoryError) as error:
        if (told := translate(error, device.name)) is None:
            raise
        raise told from error


def translate(error: Exception, device: str) -> ToolError | None:
    """What an exception of torch or transformers means for the user, or None for one that is not known."""
    if isinstance(error, MemoryError):
        return DeviceError(OUT_OF_MEMORY.format(device="cpu", monitor=MONITOR["cpu"]))
    line = (str(error).strip().splitlines() or [""])[0]
    return next((make(line, device) for pattern, make in TRANSLATIONS if pattern.search(str(error))), None)
