# SPDX-License-Identifier: Apache-2.0
"""scripts/inference.py: read images with PaddleOCR-VL on transformers, the text streamed to stdout."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tool_errors import UsageError, run

from . import prompts
from .device import DTYPES, Device, device_name, preferred

if TYPE_CHECKING:
    from .cases import Case


def add_prompt_options(parser: argparse.ArgumentParser) -> None:
    """What the three tools share: the checkpoint, the prompt and the limits of an image's size."""
    parser.add_argument(
        "--model_path", type=Path, required=True, metavar="DIR", help="folder with PaddleOCR-VL's weights"
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--prompt", metavar="TEXT", help="what to ask; the place of the image is added if it has none")
    what.add_argument("--task", choices=sorted(prompts.TASKS), default="ocr", help="one of the model's own prompts")
    parser.add_argument(
        "--min_pixels", type=int, default=112896, help="smaller images are enlarged (default %(default)s)"
    )
    parser.add_argument(
        "--max_pixels", type=int, default=1003520, help="larger images are reduced (default %(default)s)"
    )


def check_pixels(options: argparse.Namespace) -> None:
    if not 0 < options.min_pixels <= options.max_pixels:
        raise UsageError(
            f"--min_pixels {options.min_pixels} and --max_pixels {options.max_pixels}: expected 0 < min <= max"
        )


def cases_of(options: argparse.Namespace, files: list[Path]) -> list[tuple[str, Case]]:
    """(name, Case) of each conversation that the prompt and the image files make."""
    from . import pictures
    from .cases import Case

    check_pixels(options)
    text = options.prompt if options.prompt is not None else prompts.TASKS[options.task]
    conversations = prompts.split(text, len(files), prompts.answer_of(options.model_path))
    images = [pictures.read(path) for path in files]
    return [
        (
            ", ".join(files[number].name for number in numbers),
            Case(prompt, [images[number] for number in numbers], options.min_pixels, options.max_pixels),
        )
        for prompt, numbers in conversations
    ]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/inference.py", description=__doc__.partition(": ")[2])
    add_prompt_options(parser)
    parser.add_argument("--image", type=Path, nargs="+", required=True, metavar="FILE", help="one or more image files")
    parser.add_argument(
        "--device", type=device_name, metavar="cpu|cuda|npu", help="default: npu or cuda where there is one"
    )
    parser.add_argument("--dtype", choices=DTYPES, default="float32", help="default %(default)s")
    parser.add_argument("--max_new_tokens", type=int, default=1024, metavar="N", help="default %(default)s")
    options = parser.parse_args()
    if options.max_new_tokens < 1:
        parser.error(f"--max_new_tokens {options.max_new_tokens}: expected at least 1")
    return options


def main() -> int:
    options = parse_arguments()
    cases = cases_of(options, options.image)
    device = Device(options.device or preferred())

    from transformers import TextStreamer

    from .model import ReferenceModel

    began = time.perf_counter()
    model = ReferenceModel(options.model_path, device, options.dtype)
    print(
        f"loaded in {time.perf_counter() - began:.1f} s on {device.name} ({device.description}), {options.dtype}",
        file=sys.stderr,
    )
    for name, case in cases:
        if len(cases) > 1:
            print(f"== {name}", file=sys.stderr)
        began = time.perf_counter()
        streamer = TextStreamer(model.tokenizer, skip_prompt=True, skip_special_tokens=True)
        tokens = model.generate(case, options.max_new_tokens, streamer=streamer)
        seconds = time.perf_counter() - began
        ended = tokens and tokens[-1] == model.end_token_id
        cut = "" if ended else f"; cut at --max_new_tokens {options.max_new_tokens}"
        print(f"{name}: {len(tokens)} tokens in {seconds:.2f} s{cut}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(run(main))
