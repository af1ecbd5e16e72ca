# SPDX-License-Identifier: Apache-2.0
"""The command line of scripts/parse_folder.py; Python's standard library only, so that --help works everywhere."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

FORMATS = ("md", "json", "xlsx", "docx", "pdf", "chunks", "layout")


def parse() -> argparse.Namespace:
    """Return the options, with `formats` as a tuple and `options` as a dict; argparse exits for wrong ones."""
    parser = argparse.ArgumentParser(
        prog="scripts/parse_folder.py",
        description="Parse files, folders and patterns of PDFs and images with running parsers. Run it again to go on.",
    )
    parser.add_argument("inputs", metavar="INPUT", nargs="+", help="file, folder, or pattern like 'in/**/*.pdf'")
    parser.add_argument("--out", metavar="DIR", type=Path, required=True, help="each document gets a folder in here")
    parser.add_argument(
        "--server",
        metavar="URL",
        action="append",
        default=[],
        help="a parser, may be given several times (default: the one of this bundle)",
    )
    parser.add_argument(
        "--vlm",
        metavar="URL",
        action="append",
        default=[],
        help="a VLM server's API root; a parser of its own is started here for it, and stopped at the end",
    )
    parser.add_argument(
        "--concurrency", metavar="N", type=int, default=2, help="pages sent to each parser at a time (default 2)"
    )
    parser.add_argument(
        "--formats", metavar="LIST", default="md,json", help=f"what to write, of {','.join(FORMATS)} (default md,json)"
    )
    parser.add_argument(
        "--options",
        metavar="JSON",
        default="{}",
        help="further fields of the request, e.g. '{\"useChartRecognition\": true}'",
    )
    parser.add_argument("--retry-failed", action="store_true", help="parse failed and incomplete pages again")
    parser.add_argument("--timeout", metavar="SECONDS", type=float, default=600, help="for one page (default 600)")
    parser.add_argument(
        "--patience",
        metavar="SECONDS",
        type=float,
        default=600,
        help="how long to wait for a parser that is away (default 600)",
    )
    options = parser.parse_args()
    if options.concurrency < 1:
        parser.error(f"--concurrency {options.concurrency}: expected at least 1")
    if not (formats := chosen_formats(parser, options.formats, FORMATS)):
        parser.error(f"--formats {options.formats!r}: expected any of {', '.join(FORMATS)}")
    options.formats = formats
    options.options = request_options(parser, options.options)
    return options


def chosen_formats(parser: argparse.ArgumentParser, text: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """Return the formats in a list like `md,json`, each once; () for an empty list."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if unknown := [name for name in names if name not in known]:
        parser.error(f"--formats {text}: {unknown[0]!r} is not known; expected any of {', '.join(known)}")
    return names


def request_options(parser: argparse.ArgumentParser, text: str) -> dict[str, Any]:
    """Return the further fields of the request from their JSON."""
    try:
        value = json.loads(text)
    except ValueError as error:
        parser.error(f"--options: not JSON ({error})")
    if not isinstance(value, dict):
        parser.error(f"--options {text}: expected a JSON object")
    if ours := sorted({"file", "fileType", "visualize"} & value.keys()):
        parser.error(f"--options: {ours[0]} is set by this program")
    return value
