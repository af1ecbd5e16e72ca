# SPDX-License-Identifier: Apache-2.0
"""scripts/explain_inputs.py: what a model sees of images and videos, without its weights."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from tool_errors import run

from ..inference import add_pixel_options, add_video_options

VIDEOS = (".mp4", ".mov", ".avi", ".mkv", ".webm", ".m4v")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/explain_inputs.py",
        description="Sizes, patches, tokens, cost and positions of images and videos, as a model sees them.",
    )
    parser.add_argument("model", type=Path, metavar="MODEL", help="folder with the model's files; weights are not read")
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE", help="images, and for Qwen2-VL videos")
    parser.add_argument("--prompt", default="", metavar="TEXT", help="the text behind them")
    add_pixel_options(parser)
    add_video_options(parser)
    parser.add_argument(
        "--picture", type=Path, metavar="PNG", help="draw patches and positions of the first file there"
    )
    return parser.parse_args()


def main() -> int:
    options = parse_arguments()
    from .prepared import Prepared

    prepared = Prepared.of(options, [file.suffix.lower() in VIDEOS for file in options.files])
    for item in prepared.items:
        print(item.name)
        for name, value in item.rows():
            print(f"  {name:<13} {value}")
    print_prompt(prepared)
    if options.picture:
        from .picture import draw

        draw(prepared, options.picture)
        print(f"picture: {options.picture}", file=sys.stderr)
    return 0


def print_prompt(prepared: Any) -> None:
    """The prompt with runs of places written once, and the positions of each part by axis."""
    print(f"prompt: {len(prepared.ids)} tokens")
    axes = prepared.axes
    widths = [max(16, len(axis)) for axis in axes]
    print(
        "  " + f"{'tokens':<14}{'text':<44}" + "".join(f"{a:<{w}}" for a, w in zip(axes, widths, strict=True)).rstrip()
    )
    for begin, end, text in prepared.parts():
        where = f"{begin}..{end - 1}" if end - begin > 1 else str(begin)
        cells = []
        for row in prepared.positions[:, begin:end].tolist():
            low, high = min(row), max(row)
            cells.append(str(low) if low == high else f"{low}..{high}")
        line = "".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True))
        print(f"  {where:<14}{text:<44}{line}".rstrip())


if __name__ == "__main__":
    sys.exit(run(main))
