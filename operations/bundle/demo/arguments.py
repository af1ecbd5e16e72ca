# SPDX-License-Identifier: Apache-2.0
"""The command line of scripts/run_demo.sh."""

from __future__ import annotations

import argparse
from pathlib import Path

from file_types import SUPPORTED


def parse(words: list[str]) -> argparse.Namespace:
    """Return `paths` and the options; argparse ends the process with status 2 for what it cannot read."""
    parser = argparse.ArgumentParser(prog="scripts/run_demo.sh", description="Parse images and PDFs to Markdown.")
    parser.add_argument("paths", metavar="PATH", nargs="*", help=SUPPORTED)
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        default=Path("output"),
        help="where <name>.md, <name>.json and images/ are written (default: output)",
    )
    parser.add_argument(
        "--mode",
        choices=("auto", "docker", "local"),
        default="auto",
        help="run the services in containers or as local processes (default: auto)",
    )
    parser.add_argument(
        "--no-install",
        action="store_true",
        help="as root: install no system packages, say which are missing",
    )
    parser.add_argument("--down", action="store_true", help="stop the services")
    options = parser.parse_args(words)
    if not options.paths and not options.down:
        parser.error("name at least one image or PDF, e.g. tests/data/report.png")
    if options.paths and options.down:
        parser.error("--down takes no PATH")
    return options
