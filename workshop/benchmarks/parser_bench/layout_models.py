# SPDX-License-Identifier: Apache-2.0
"""The layout models that a benchmark can have: the demo's, one of the published size, or a folder of the caller's."""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
LAYOUT = ROOT / "models" / "demo" / "PP-DocLayoutV2"
WORKSHOP = ROOT / "workshop"
SCRIPT = WORKSHOP / "demo_training" / "layout" / "published_shape.py"
NAMES = ("demo", "published")


def layout_model(word: str) -> Path:
    """The folder of one of NAMES, or of the path itself; for argparse.

    `published` has random weights of the published shape, runs in full, and then gives the demo model's boxes, since
    random weights find none. It is made on its first use (a minute) and kept in .run.
    """
    if word == "demo":
        return LAYOUT
    if word == "published":
        return published()
    folder = Path(word)
    if not (folder / "inference.yml").is_file():
        raise argparse.ArgumentTypeError(
            f"{word!r} is neither {' nor '.join(NAMES)} nor a layout model's folder (with inference.yml)"
        )
    return folder.resolve()


def published() -> Path:
    """The model of the published shape; made anew when its script has changed."""
    version = hashlib.sha256(SCRIPT.read_bytes()).hexdigest()[:12]
    folder = ROOT / ".run" / "bench" / f"published-{version}" / LAYOUT.name
    if not folder.is_dir():
        print(f"making a layout model of the published shape in {folder.relative_to(ROOT)}", file=sys.stderr)
        unfinished = folder.with_name(f".{folder.name}")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            [sys.executable, "-m", "demo_training.layout.published_shape", str(unfinished), "--boxes", str(LAYOUT)],
            cwd=WORKSHOP,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        unfinished.rename(folder)
    return folder
