# SPDX-License-Identifier: Apache-2.0
"""Folders that every user can read, as the containers' users must: a checkout, and models folders."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.support.paths import ROOT


def readable(folder: Path) -> Path:
    """Open a folder to every user, with all that is in it: pytest's folders are their owner's alone."""
    subprocess.run(["chmod", "-R", "a+rX", str(folder)], check=True)
    return folder


def copy_checkout(folder: Path) -> Path:
    """The files that git would give to a reader."""
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    for name in names.stdout.splitlines():
        source, target = ROOT / name, folder / name
        if source.is_file() and not source.is_symlink():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    return readable(folder)


def demo_models(folder: Path) -> Path:
    """A models folder with nothing but the demo weights; a bind mount begins at `models` itself."""
    shutil.copytree(ROOT / "models/demo", folder / "models/demo")
    return readable(folder / "models")


def weights_by_hand(folder: Path) -> Path:
    """What an operator without a network fills the claim `models` with: here the demo's weights, in the place of the
    published ones."""
    target = folder / "PaddleOCR-VL"
    shutil.copytree(ROOT / "models/demo/PaddleOCR-VL", target)
    shutil.copytree(ROOT / "models/demo/PP-DocLayoutV2", target / "PP-DocLayoutV2")
    return readable(folder)
