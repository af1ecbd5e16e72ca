# SPDX-License-Identifier: Apache-2.0
"""scripts/inference.py: read images, and with Qwen2-VL videos, on transformers; the text is streamed to stdout."""

from __future__ import annotations

import argparse
import math
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tool_errors import UsageError, run

from . import prompts
from .device import DTYPES, Device, device_name, preferred
from .families import FAMILIES, Family, model_type

if TYPE_CHECKING:
    import numpy as np

    from .cases import Case


def add_prompt_options(parser: argparse.ArgumentParser) -> None:
    """What the three tools share: the checkpoint, the prompt and the limits of an image's size."""
    parser.add_argument("--model_path", type=Path, required=True, metavar="DIR", help="folder with the model's weights")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--prompt", metavar="TEXT", help="what to ask; the place of the image is added if it has none")
    what.add_argument("--task", choices=prompts.ALL_TASKS, default="ocr", help="one of the model's own prompts")
    add_pixel_options(parser)


def add_pixel_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--min_pixels", type=int, help="smaller images are enlarged (default: the family's)")
    parser.add_argument("--max_pixels", type=int, help="larger images and frames are reduced (default: the family's)")


def add_video_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--fps", type=rate, default=2.0, help="frames of a second of video (default %(default)s)")
    parser.add_argument("--frames", type=count, default=128, help="at most, of a video (default %(default)s)")


def rate(text: str) -> float:
    """argparse type: a number above 0."""
    if not 0 < (number := float(text)) < math.inf:
        raise argparse.ArgumentTypeError(f"{text}: expected a number above 0")
    return number


def count(text: str) -> int:
    """argparse type: of frames, two of which share a patch."""
    if (number := int(text)) < 2:
        raise argparse.ArgumentTypeError(f"{text}: expected at least 2")
    return number


def pixels_of(options: argparse.Namespace, family: Family, task: str = "") -> tuple[int, int]:
    """Least and most pixels of an image for a task. Raises UsageError."""
    most = options.max_pixels or family.pages.get(task, family.max_pixels)
    least = options.min_pixels or family.min_pixels
    if not 0 < least <= most:
        raise UsageError(f"--min_pixels {least} and --max_pixels {most}: expected 0 < min <= max")
    return least, most


def cases_of(options: argparse.Namespace, pictures: list[tuple[str, np.ndarray]]) -> list[tuple[str, Case]]:
    """(name, Case) of each conversation that the prompt and the pictures make, each with its name. Warns of what is a
    page, where the model reads blocks. Raises UsageError."""
    from .cases import Case
    from .media import doubled

    family = FAMILIES[model_type(options.model_path)]
    whole = options.task in family.pages
    limits = pixels_of(options, family, options.task)
    conversations = prompts.Form.of(options.model_path).split(text_of(options), len(pictures))
    images = [doubled(image) if whole else image for _, image in pictures]
    for name, image in pictures:
        height, width, _ = image.shape
        if family.of_blocks and not whole and width * height > limits[1]:
            print(
                f"{name}: {width} x {height} pixels are reduced to {limits[1]}. {family.name} reads blocks; "
                "if this is a page, take scripts/run_demo.sh or scripts/parse_folder.py",
                file=sys.stderr,
            )
    return [
        (
            ", ".join(pictures[number][0] for number in numbers),
            Case(prompt, [images[number] for number in numbers], *limits),
        )
        for prompt, numbers in conversations
    ]


def text_of(options: argparse.Namespace) -> str:
    """What is asked. Raises UsageError for a task that the model does not know."""
    return options.prompt if options.prompt is not None else prompts.task_of(options.model_path, options.task)


def video_cases(options: argparse.Namespace) -> list[tuple[str, Case]]:
    """(name, Case) of each video. Raises UsageError for a model that reads none."""
    from .cases import Case
    from .media import read_video

    family = FAMILIES[model_type(options.model_path)]
    if family.video is None:
        raise UsageError(f"--video: {family.name} reads no video; Qwen2-VL does")
    limits = pixels_of(options, family)
    prompt = prompts.Form.of(options.model_path).complete(family.video + text_of(options))
    return [
        (file.name, Case(prompt, [], *limits, videos=[read_video(file, options.fps, options.frames)[0]]))
        for file in options.video
    ]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/inference.py", description=__doc__.partition(": ")[2])
    add_prompt_options(parser)
    media = parser.add_mutually_exclusive_group(required=True)
    media.add_argument("--image", type=Path, nargs="+", metavar="FILE", help="one or more image files")
    media.add_argument("--video", type=Path, nargs="+", metavar="FILE", help="one or more video files (Qwen2-VL)")
    add_video_options(parser)
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
    from .media import named

    cases = video_cases(options) if options.video else cases_of(options, named(options.image))
    device = Device(options.device or preferred())

    from transformers import TextStreamer

    from .model import ReferenceModel

    began = time.perf_counter()
    model = ReferenceModel(options.model_path, device, options.dtype)
    print(
        f"loaded in {time.perf_counter() - began:.1f} s on {device.name} ({device.description}), {options.dtype}",
        file=sys.stderr,
    )
    # Places of texts are special tokens, which PaddleOCR-VL's spotting is asked for (`<|LOC_17|>`).
    places = options.task == "spotting"
    end = model.text([model.end_token_id])

    class Streamer(TextStreamer):
        def on_finalized_text(self, text: str, stream_end: bool = False) -> None:
            super().on_finalized_text(text.replace(end, ""), stream_end)

    for name, case in cases:
        if len(cases) > 1:
            print(f"== {name}", file=sys.stderr)
        began = time.perf_counter()
        streamer = Streamer(model.tokenizer, skip_prompt=True, skip_special_tokens=not places)
        tokens = model.read(case, options.max_new_tokens, streamer)
        seconds = time.perf_counter() - began
        ended = tokens and tokens[-1] == model.end_token_id
        cut = "" if ended else f"; cut at --max_new_tokens {options.max_new_tokens}"
        print(f"{name}: {len(tokens)} tokens in {seconds:.2f} s{cut}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(run(main))
