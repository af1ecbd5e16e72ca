# SPDX-License-Identifier: Apache-2.0
"""scripts/offline_bundle.sh: `save` writes the archive here, `load` checks it there and loads the images."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from bundle.offline import takeover
from bundle.offline.engine import images
from bundle.offline.load import load, unpack_here
from bundle.offline.save import save
from bundle.paths import ROOT
from tool_errors import ToolError, UsageError


def parse_arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/offline_bundle.sh", description="Carry the bundle to an air-gapped site."
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    saving = verbs.add_parser("save", help="write an archive")
    saving.add_argument("archive", type=Path)
    saving.add_argument("--weights", action="store_true", help="with MODELS_DIR/PaddleOCR-VL")
    saving.add_argument("--images", nargs="+", metavar="IMAGE", help="default: the two images of HARDWARE and STACK")
    loading = verbs.add_parser("load", help="load an archive, or the folder that it was unpacked to")
    loading.add_argument("archive", type=Path, nargs="?")
    loading.add_argument(
        "--from",
        dest="old",
        type=Path,
        metavar="FOLDER",
        help="the folder in use: .env, compose.override.yaml, chosen dies and weights are taken over from it",
    )
    return parser.parse_args(words)


def main(words: list[str]) -> int:
    options = parse_arguments(words)
    try:
        if shutil.which("docker") is None:
            raise UsageError("docker is missing; scripts/preflight.sh says how to install it")
        if options.verb == "save":
            save(options.archive.absolute(), options.images or images(), options.weights)
            return 0
        old = options.old.absolute() if options.old else None
        if old:
            takeover.check_folder(old, Path.cwd() if options.archive else ROOT)
        if options.archive:
            return load(unpack_here(options.archive), old, checked=True)
        return load(ROOT, old)
    except ToolError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
