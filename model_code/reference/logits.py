# SPDX-License-Identifier: Apache-2.0
"""Inputs and logits of every position by transformers >= 5, in float32 on the CPU.

    python -m reference.logits --model DIR --cases cases.safetensors --out reference.safetensors

For case i the file written holds ``i.input_ids`` [n], ``i.logits`` [n, vocabulary] float32 and, with images,
``i.pixel_values`` [patches, 3, 14, 14] float32 row-major and ``i.image_grid_thw`` [images, 3].
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from PIL import Image
from safetensors.torch import save_file
from transformers import AutoTokenizer, PaddleOCRVLForConditionalGeneration, PaddleOCRVLProcessor
from transformers.models.paddleocr_vl.image_processing_pil_paddleocr_vl import PaddleOCRVLImageProcessorPil

from .cases import Case, load_cases


def load(directory: Path) -> tuple[PaddleOCRVLForConditionalGeneration, PaddleOCRVLProcessor]:
    """Model in float32 and processor of a checkpoint; the processor that resizes with PIL, as the published one does."""
    model = PaddleOCRVLForConditionalGeneration.from_pretrained(directory, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(directory)
    return model, PaddleOCRVLProcessor(PaddleOCRVLImageProcessorPil.from_pretrained(directory), tokenizer)


@torch.inference_mode()
def run(model: PaddleOCRVLForConditionalGeneration, processor: PaddleOCRVLProcessor, case: Case) -> dict[str, torch.Tensor]:
    """Inputs and logits of one case; names and shapes as in the module's docstring."""
    images = [Image.fromarray(image) for image in case.images]
    size = {"shortest_edge": case.min_pixels, "longest_edge": case.max_pixels}
    options = {"images": images, "images_kwargs": {"size": size}} if images else {}
    inputs = processor(
        text=[case.prompt], return_tensors="pt", text_kwargs={"add_special_tokens": False}, **options
    )
    logits = model(**inputs).logits[0]
    kept = {name: inputs[name] for name in ("pixel_values", "image_grid_thw") if name in inputs}
    return {"input_ids": inputs["input_ids"][0], "logits": logits.float(), **kept}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--cases", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    model, processor = load(arguments.model)
    results = {}
    for index, case in enumerate(load_cases(arguments.cases)):
        for name, value in run(model, processor, case).items():
            results[f"{index}.{name}"] = value.contiguous()
    save_file(results, arguments.out, metadata={"torch": torch.__version__})


if __name__ == "__main__":
    main()
