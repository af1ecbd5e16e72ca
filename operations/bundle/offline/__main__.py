# SPDX-License-Identifier: Apache-2.0
"""scripts/offline_bundle.sh: `save` writes the archive here, `load` checks it there and loads the images."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from bundle.offline import takeover, to_build
from bundle.offline.engine import images
from bundle.offline.load import check_signature, load, unpack_here
from bundle.offline.save import save
from bundle.paths import ROOT
from tool_errors import UsageError, run


def parse_arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/offline_bundle.sh", description="Carry the bundle to an air-gapped site."
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    saving = verbs.add_parser("save", help="write an archive")
    saving.add_argument("archive", type=Path)
    saving.add_argument("--weights", action="store_true", help="with the weights of VLM_MODEL in MODELS_DIR")
    saving.add_argument("--corpus", action="store_true", help="with the image of scripts/parse_corpus.py")
    saving.add_argument(
        "--to-build",
        choices=sorted(to_build.PROCESSORS),
        help="instead of the images, save what their build for this processor needs: wheels, base images, sources",
    )
    saving.add_argument("--sign", type=Path, metavar="KEY", help="write ARCHIVE.sig with this SSH key")
    saving.add_argument("--images", nargs="+", metavar="IMAGE", help="default: the two images of HARDWARE and STACK")
    loading = verbs.add_parser("load", help="load an archive, or the folder that it was unpacked to")
    loading.add_argument("archive", type=Path, nargs="?")
    loading.add_argument(
        "--signers",
        type=Path,
        metavar="FILE",
        help="refuse an ARCHIVE without a signature of one of these: ssh-keygen's allowed signers, `NAME KEY` a line",
    )
    loading.add_argument(
        "--from",
        dest="old",
        type=Path,
        metavar="FOLDER",
        help="the folder in use: .env, compose.override.yaml, chosen dies and weights are taken over from it",
    )
    return parser.parse_args(words)


def carry(options: argparse.Namespace) -> int:
    """Save or load; returns the exit status. Raises ToolError."""
    if shutil.which("docker") is None:
        raise UsageError("docker is missing; scripts/preflight.sh says how to install it")
    if options.verb == "save":
        archive = options.archive.absolute()
        if options.to_build:
            with to_build.collected(options.to_build, options.corpus) as parts:
                save(archive, parts.images, options.weights, options.sign, parts)
        else:
            save(archive, options.images or images(options.corpus), options.weights, options.sign)
        return 0
    old = options.old.absolute() if options.old else None
    if options.archive and Path.cwd().resolve().is_relative_to(ROOT):
        raise UsageError(
            f"{options.archive} would be unpacked into {Path.cwd()}, inside the folder in use; to unpack it beside "
            f"that: cd {ROOT.parent}, then {ROOT.name}/scripts/offline_bundle.sh load {options.archive.absolute()} "
            f"--from {ROOT.name}"
        )
    if old:
        takeover.check_folder(old, Path.cwd() if options.archive else ROOT)
    if options.signers and not options.archive:
        raise UsageError("--signers checks an ARCHIVE; name it, and run the script of a folder that you trust")
    if options.archive:
        check_signature(options.archive, options.signers)
        return load(unpack_here(options.archive), old, checked=True)
    return load(ROOT, old)


def main(words: list[str]) -> int:
    options = parse_arguments(words)
    return run(lambda: carry(options))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
